from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import DataError, InvalidPipelineError, UserError
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from headrace.testing import run_pipeline
from support.suite.properties import weighted


def pipeline(**changes: Any) -> Pipeline:
    data: dict[str, Any] = {
        "name": "p",
        "sources": {
            "s": {
                "kafka": {"brokers": "nowhere:1", "topic": "t", "metadata": {"partition": "part", "key": "key"}},
                "format": "json",
                "schema": {"k": "string not null", "n": "int64"},
                "on_error": {"dead_letter": "wrong"},
            }
        },
        "steps": {
            "checked": {"from": "s", "with_columns": {"m": "cast(k as int64) + n"}, "on_error": "divert"},
            "total": {"from": "s", "key_by": ["k"], "aggregate": {"n": "sum(n)"}},
            "minutes": {
                "from": "s",
                "key_by": ["k"],
                "window": {"tumbling": "1m"},
                "aggregate": {"n": "count(*)", "newest": "last(n)"},
            },
        },
        "sinks": {
            "totals": {
                "from": "total",
                "kafka": {"brokers": "nowhere:1", "topic": "o", "mode": "upsert", "key": ["k"]},
                "format": "json",
            },
            "windows": {"from": "minutes", "kafka": {"brokers": "nowhere:1", "topic": "w"}, "format": "json"},
        },
    }
    return pipeline_from_dict({**data, **changes})


ROWS = [
    {"k": "1", "n": 1, "$timestamp": "1970-01-01T00:00:01Z"},
    {"k": "1", "n": 2, "$timestamp": 2000, "$partition": 1, "key": b"key"},
    {"k": "x", "n": 5, "$timestamp": 61_000},
]


def test_sinks_are_collected_and_no_broker_is_asked() -> None:
    results = run_pipeline(pipeline(), {"s": ROWS})

    assert sorted(results.rows("totals"), key=str) == [{"k": "1", "n": 3}, {"k": "x", "n": 5}]
    assert results.frame("totals").height == 3
    assert results.latest("totals").height == 2
    assert sorted((row["k"], row["n"], row["newest"]) for row in results.rows("windows")) == [("1", 2, 2), ("x", 1, 5)]
    assert (results.late, results.bad) == (0, 0)


def test_any_node_can_be_looked_at() -> None:
    results = run_pipeline(pipeline(), {"s": ROWS}, outputs=["s", "checked", "checked.bad", "minutes.late"])

    assert sorted((row["n"], row["part"]) for row in results.rows("s")) == [(1, 0), (2, 1), (5, 0)]
    assert {row["key"] for row in results.rows("s")} == {None, b"key"}
    assert sorted(row["m"] for row in results.rows("checked")) == [2, 3]
    assert [row["k"] for row in results.rows("checked.bad")] == ["x"]
    assert results.rows("minutes.late") == []
    assert results.bad == 1
    assert results.counters["checked"]["bad"] == 1


def test_frames_go_in_too() -> None:
    frame = pl.DataFrame({"k": ["1", "1"], "n": [1, None], "$timestamp": [0, 120_000]})

    assert run_pipeline(pipeline(), {"s": frame}).rows("windows") == [
        {"k": "1", "window_start": stamp(0), "window_end": stamp(60), "n": 1, "newest": 1},
        {"k": "1", "window_start": stamp(120), "window_end": stamp(180), "n": 1, "newest": None},
    ]


def stamp(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_without_rows_nothing_comes_out() -> None:
    results = run_pipeline(pipeline(), {})

    assert results.rows("totals") == []
    assert results.frame("windows").columns == ["k", "window_start", "window_end", "n", "newest"]


def test_a_file_will_do(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: f\nsources:\n  s:\n    memory:\n      name: x\n    schema:\n      n: int64\n"
        "sinks:\n  o:\n    from: s\n    print: {}\n"
    )

    assert run_pipeline(file, {"s": [{"n": "7"}]}).rows("o") == [{"n": 7}]
    assert run_pipeline(str(file), {"s": [{"n": 7}]}, parallelism=3, batch_rows=1).rows("o") == [{"n": 7}]


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"x": []}, [], "there is no source 'x'"),
        ({"s": [{"k": "1", "m": 2}]}, [], "inputs.s.0.m: unknown column 'm'"),
        ({"s": [{"n": 2}]}, [], "column 'k' is not null and has no value"),
        ({"s": pl.DataFrame({"q": [1]})}, [], "unknown column 'q'"),
        ({}, ["totl"], "did you mean 'total'?"),
        ({}, ["total.late"], "total has no output 'late'"),
        ({}, ["totals.bad"], "is a sink"),
    ],
)
def test_what_does_not_fit_is_said(inputs: dict[str, Any], outputs: list[str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        run_pipeline(pipeline(), inputs, outputs=outputs)

    assert message in str(raised.value)


def test_the_output_bad_of_a_sink_is_there_and_empty() -> None:
    """A collection takes every row."""
    kafka: dict[str, Any] = {"kafka": {"brokers": "b:1", "topic": "t"}, "format": "json"}
    sinks = {
        "out": {"from": "s", "on_error": "divert"} | kafka,
        "letters": {"from": "s", "on_error": {"dead_letter": "dead"}} | kafka,
        "kept": {"from": "short"} | kafka,
    }
    model = pipeline_from_dict(
        {
            "name": "p",
            "sources": {"s": {"schema": {"n": "int64"}} | kafka},
            "steps": {"short": {"from": "out.bad", "select": ["reason"]}},
            "sinks": sinks,
        }
    )
    results = run_pipeline(model, {"s": [{"n": 7}]}, outputs=["out.bad", "letters.bad"])
    assert [results.rows(name) for name in ("out", "letters", "kept", "out.bad", "letters.bad")] == [
        [{"n": 7}],
        [{"n": 7}],
        [],
        [],
        [],
    ]


def test_an_unknown_result_names_those_there_are() -> None:
    with pytest.raises(UserError, match="outputs: totals, windows"):
        run_pipeline(pipeline(), {}).rows("checked")


def test_what_the_real_sinks_refuse_is_refused() -> None:
    with pytest.raises(InvalidPipelineError, match="update each other"):
        run_pipeline(
            pipeline(sinks={"o": {"from": "total", "kafka": {"brokers": "nowhere:1", "topic": "o"}, "format": "json"}}),
            {},
        )


def test_a_row_that_fails_is_named_by_its_place() -> None:
    failing = {"checked": {"from": "s", "with_columns": {"m": "cast(k as int64)"}}}
    sinks = {"o": {"from": "checked", "kafka": {"brokers": "nowhere:1", "topic": "o"}, "format": "json"}}

    with pytest.raises(DataError):
        run_pipeline(pipeline(steps=failing, sinks=sinks), {"s": ROWS})


_rows = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", "c"]),
            "n": st.one_of(st.none(), st.integers(-5, 5)),
            "$timestamp": st.integers(0, 200_000),
            "$partition": st.integers(0, 2),
        }
    ),
    max_size=12,
)


@weighted(0.1)
@given(_rows, st.sampled_from([1, 3]), st.sampled_from([1, 2, None]))
def test_results_do_not_hang_on_batches_or_parallelism(
    rows: list[dict[str, Any]], parallelism: int, batch_rows: int | None
) -> None:
    plain = run_pipeline(pipeline(), {"s": rows}, outputs=["minutes.late"])
    other = run_pipeline(
        pipeline(), {"s": rows}, outputs=["minutes.late"], parallelism=parallelism, batch_rows=batch_rows
    )

    for name in ("totals", "windows", "minutes.late"):
        assert sorted(plain.rows(name), key=str) == sorted(other.rows(name), key=str)
