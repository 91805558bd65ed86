"""The aggregate step: its schema, exact and failing results, order columns, and the running form."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, TS, WM
from headrace.core.errors import DataError
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.operator import BAD, LATE, REASON, OnError
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from support.oracles.aggregates import AGGREGATES, Row, aggregate, bits
from support.oracles.collector import Collected

INPUT = schema_of({"key": "string", "x": "float64", "i": "int64", "s": "string"})
TEN = Tumbling(10)


def step(
    aggregates: Mapping[str, str],
    window: Window | None = TEN,
    keys: Sequence[str] = ("key",),
    columns: Mapping[str, str] | None = None,
    on_error: OnError = OnError.FAIL,
) -> AggregateConfig:
    schema = INPUT if columns is None else schema_of(columns)
    return AggregateConfig("step", tuple(keys), window, tuple(aggregates.items()), schema, on_error=on_error)


def batch(
    config: AggregateConfig, columns: Mapping[str, Sequence[object]], times: Sequence[int | None]
) -> pl.DataFrame:
    data = {name: columns.get(name, [None] * len(times)) for name in config.input.names}
    return pl.DataFrame({**data, TS: times}, schema={**config.input.polars(), TS: pl.Int64()}, strict=False)


def once(config: AggregateConfig, columns: Mapping[str, Sequence[object]], times: Sequence[int]) -> Collected:
    """What one batch and the end of time make."""
    operator, out = config.open(), Collected()
    operator.on_batch(batch(config, columns, times), out)
    operator.on_watermark(TIME_MAX, out)
    return out


def test_output_has_keys_window_and_aggregates() -> None:
    config = step({"n": "count(*)", "mean": "avg(x)", "most": "max(key)"})
    assert str(config.output()) == (
        "key: string, window_start: timestamp not null, window_end: timestamp not null, "
        "n: int64 not null, mean: float64, most: string"
    )
    made = once(config, {"key": ["a"], "x": [1.0]}, [-3]).frame
    assert made.schema == {**config.output().polars(), TS: pl.Int64()}
    assert made.row(0) == (
        "a",
        datetime(1969, 12, 31, 23, 59, 59, 990_000, UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        1,
        1.0,
        "a",
        -1,
    )
    assert step({"n": "count(*)"}, None).output().names == ("key", "n")


def test_expressions_share_calls_and_read_keys() -> None:
    config = step({"a": "sum(i)", "b": "sum(i) * 2 + count(*)", "c": "concat(key, '!')", "d": "1"})
    assert (
        once(config, {"key": ["k", "k"], "i": [3, 4]}, [1, 2]).rows[0] | {"a": 7, "b": 16, "c": "k!", "d": 1}
        == (once(config, {"key": ["k", "k"], "i": [3, 4]}, [1, 2]).rows[0])
    )


def test_only_constants_still_make_one_row_per_group() -> None:
    assert [row["d"] for row in once(step({"d": "7"}), {"key": ["a", "b", "a"]}, [1, 1, 1]).rows] == [7, 7]


def test_rows_of_a_window_come_in_order_of_keys_and_windows_by_end() -> None:
    rows = once(step({"n": "count(*)"}), {"key": ["b", "a", None, "c"]}, [15, 15, 15, 2]).rows
    assert [(row["key"], row[TS]) for row in rows] == [("c", 9), (None, 19), ("a", 19), ("b", 19)]


@pytest.mark.parametrize(
    ("kind", "values", "least", "most"),
    [
        ("bool", [True, False, None], False, True),
        ("date", [date(2020, 1, 2), date(2019, 1, 1)], date(2019, 1, 1), date(2020, 1, 2)),
        (
            "timestamp",
            [datetime(2020, 1, 1, tzinfo=UTC)],
            datetime(2020, 1, 1, tzinfo=UTC),
            datetime(2020, 1, 1, tzinfo=UTC),
        ),
        ("decimal(10,2)", [Decimal("1.50"), Decimal("-2.25")], Decimal("-2.25"), Decimal("1.50")),
        ("string", ["b", "ab", None], "ab", "b"),
        ("binary", [b"b", b"\x00"], b"\x00", b"b"),
        ("float32", [-0.0, math.inf], 0.0, math.inf),
        ("int32", [None, None], None, None),
    ],
)
def test_least_and_most_of_any_ordered_type(kind: str, values: list[object], least: object, most: object) -> None:
    config = step({"low": "min(v)", "high": "max(v)", "kinds": "count(distinct v)"}, keys=(), columns={"v": kind})
    (row,) = once(config, {"v": values}, [1] * len(values)).rows
    assert (bits(row["low"]), bits(row["high"])) == (bits(least), bits(most))
    assert row["kinds"] == len({value for value in values if value is not None})


@pytest.mark.parametrize("precision", [9, 18, 28, 38])
def test_decimals_add_exactly(precision: int) -> None:
    top = Decimal(f"{'9' * (precision - 2)}.99")
    values = [top, top.copy_negate(), Decimal("0.01"), top, top.copy_negate(), None, Decimal("-7.50")]
    config = step(
        {"s": "sum(v)", "m": "avg(v)", "d": "var_pop(v)", "u": "sum(distinct v)"},
        keys=(),
        columns={"v": f"decimal({precision},2)"},
    )
    (row,) = once(config, {"v": values}, [1] * len(values)).rows
    assert (row["s"], row["u"]) == (Decimal("-7.49"), Decimal("-7.49"))
    assert row["m"] == -749 / 600
    exact = (4 * (10**precision - 1) ** 2 + 1 + 750**2) * 6 - 749**2
    assert row["d"] == exact / (36 * 10**4)


@pytest.mark.parametrize("text", ["sum(i)", "sum(distinct i)"])
def test_an_integer_sum_that_does_not_fit_fails_at_emission(text: str) -> None:
    columns: dict[str, Sequence[object]] = {"key": ["a", "a", "b"], "i": [2**63 - 1, 1, 5]}
    with pytest.raises(DataError, match=r"(?s)'step'.*total: the sum does not fit into int64.*key='a'"):
        once(step({"total": text}), columns, [1, 2, 3])
    skipped = once(step({"total": text}, on_error=OnError.SKIP), columns, [1, 2, 3])
    assert [(row["key"], row["total"]) for row in skipped.rows] == [("b", 5)]
    assert skipped.counters == {"bad": 1}
    diverted = once(step({"total": text}, on_error=OnError.DIVERT), columns, [1, 2, 3])
    (bad,) = diverted.side(BAD)
    assert {**bad, REASON: ""} == {"key": "a", "x": None, "i": None, "s": None, REASON: "", TS: 9}


def test_float32_values_are_added_as_they_are() -> None:
    config = step({"s": "sum(v)", "d": "sum(distinct v)"}, keys=(), columns={"v": "float32"})
    values = [3e38, 3e38, 1.5, -3e38]
    exact = [float(value) for value in pl.Series(values, dtype=pl.Float32)]
    (row,) = once(config, {"v": values}, [1] * 4).rows
    assert (row["s"], row["d"]) == (math.fsum(exact), 1.5)


def test_a_sum_may_leave_int64_on_the_way() -> None:
    (row,) = once(
        step({"s": "sum(i)"}), {"key": ["a"] * 4, "i": [2**63 - 1, 2**63 - 1, -(2**63), -(2**62)]}, [1] * 4
    ).rows
    assert row["s"] == 2**63 - 2 - 2**62


def test_a_decimal_sum_that_does_not_fit_fails() -> None:
    config = step({"s": "sum(v)"}, keys=(), columns={"v": "decimal(38,0)"})
    with pytest.raises(DataError, match="does not fit into decimal"):
        once(config, {"v": [Decimal(10**38 - 1), Decimal(1)]}, [1, 1])


def test_a_scalar_over_results_that_fails_is_an_error_of_the_group() -> None:
    config = step({"n": "cast(min(s) as int64)"}, on_error=OnError.DIVERT)
    out = once(config, {"key": ["a", "b"], "s": ["7", "x"]}, [1, 2])
    assert [row["n"] for row in out.rows] == [7]
    assert [(row["key"], "cast(min(s)" in str(row[REASON])) for row in out.side(BAD)] == [("b", True)]


def test_rows_whose_argument_has_no_answer_fail() -> None:
    columns: dict[str, Sequence[object]] = {"key": ["a", "a", "b"], "s": ["1", "x", "2"], "i": [1, 1, 1]}
    aggregates = {"t": "sum(cast(s as int64))"}
    with pytest.raises(DataError, match=r"(?s)'step'.*cannot convert 'x'.*key='a'"):
        once(step(aggregates), columns, [1, 2, 3])
    diverted = once(step(aggregates, on_error=OnError.DIVERT), columns, [1, 2, 3])
    assert [(row["key"], row["t"]) for row in diverted.rows] == [("a", 1), ("b", 2)]
    assert [row["s"] for row in diverted.side(BAD)] == ["x"]


def test_an_argument_may_fail_where_its_filter_does_not_hold() -> None:
    config = step({"t": "sum(cast(s as int64)) filter (where i = 1)"})
    assert once(config, {"key": ["a", "a"], "s": ["1", "x"], "i": [1, 2]}, [1, 2]).rows[0]["t"] == 1


def test_event_times_that_no_window_can_hold_fail() -> None:
    out = once(step({"n": "count(*)"}, on_error=OnError.DIVERT), {"key": ["a", "b"]}, [2**62, 5])
    assert [row["key"] for row in out.rows] == ["b"]
    assert [row[REASON] for row in out.side(BAD)] == ["its event time is out of range"]


def test_late_rows_leave_whole_and_partly_late_rows_are_counted() -> None:
    config = step({"n": "count(*)"}, Sliding(10, 5))
    operator, out = config.open(), Collected()
    rows = batch(config, {"key": ["on time", "half", "late"], "i": [1, 2, 3]}, [7, 7, 7])
    operator.on_batch(rows.with_columns(pl.Series(WM, [8, 9, 14], dtype=pl.Int64)), out)
    operator.on_watermark(TIME_MAX, out)
    assert [(row["key"], row[TS]) for row in out.rows] == [("on time", 9), ("half", 14), ("on time", 14)]
    assert [(row["key"], row["i"], row[TS], row[WM]) for row in out.side(LATE)] == [("late", 3, 7, 14)]
    assert out.counters == {"late": 1, "partly_late": 1}


def test_the_operators_watermark_judges_if_asked() -> None:
    plain = step({"n": "count(*)"})
    flink = AggregateConfig(plain.node, plain.keys, TEN, plain.aggregates, plain.input, lateness="operator")
    for config, late in ((plain, 0), (flink, 1)):
        operator, out = config.open(), Collected()
        operator.on_watermark(9, out)
        operator.on_batch(batch(config, {"key": ["a", "b"]}, [9, 10]), out)
        assert out.counters["late"] == late


def test_time_is_held_back_by_the_allowed_lateness() -> None:
    plain = step({"n": "count(*)"})
    config = AggregateConfig(plain.node, plain.keys, TEN, plain.aggregates, plain.input, allowed_lateness_ms=100)
    operator, out = config.open(), Collected()
    assert operator.on_watermark(TIME_MIN, out) == TIME_MIN
    assert operator.on_watermark(50, out) == -50
    assert operator.on_watermark(TIME_MAX, out) == TIME_MAX


def test_late_rows_within_the_allowance_make_their_groups_fire_again() -> None:
    plain = step({"n": "count(*)"})
    config = AggregateConfig(plain.node, plain.keys, TEN, plain.aggregates, plain.input, allowed_lateness_ms=5)
    operator, out = config.open(), Collected()
    operator.on_batch(batch(config, {"key": ["a", "b"]}, [1, 2]), out)
    operator.on_watermark(9, out)
    operator.on_batch(
        batch(config, {"key": ["a", "c"]}, [3, 12]).with_columns(pl.lit(13, dtype=pl.Int64).alias(WM)), out
    )
    operator.on_watermark(14, out)
    operator.on_batch(batch(config, {"key": ["b"]}, [3]).with_columns(pl.lit(14, dtype=pl.Int64).alias(WM)), out)
    assert [(row["key"], row["n"], row[TS]) for row in out.rows] == [("a", 1, 9), ("b", 1, 9), ("a", 2, 9)]
    assert out.counters == {"late": 1}


@pytest.mark.parametrize("window", [Tumbling(10), Sliding(10, 5), Cumulate(10, 5)])
def test_state_goes_with_its_windows(window: Window) -> None:
    operator, out = step({"n": "count(*)", "d": "count(distinct i)"}, window).open(), Collected()
    config = step({}, window)
    for start in range(0, 1000, 10):
        operator.on_batch(batch(config, {"key": ["a", "b"], "i": [1, 2]}, [start, start + 9]), out)
        operator.on_watermark(start + 4, out)
    operator.on_watermark(10_000, out)
    state = operator._state  # type: ignore[attr-defined]
    assert not any(getattr(state, name) for name in ("_last_end", "_since", "_starts", "_narrow", "_mixed_panes"))
    assert state._windows.runs == 0


def test_made_rows_have_a_place_in_the_total_order() -> None:
    plain = step({"n": "count(*)"}, keys=("key", "x"))
    config = AggregateConfig(plain.node, plain.keys, TEN, plain.aggregates, plain.input, order_output=True)
    rows = once(config, {"key": ["a", None, 'q"'], "x": [math.nan, 1.5, None]}, [11, 12, 13]).rows
    assert [(row[O_NODE], row[O_TEXT], row[O_MAJOR], row[O_MINOR], row[O_INDEX]) for row in rows] == [
        ("step", text, 10, 0, 0)
        for text in ('{"key":null,"x":"1.5"}', '{"key":"a","x":"NaN"}', '{"key":"q\\"","x":null}')
    ]


def test_first_and_last_by_arrival() -> None:
    plain = step({"one": "first(i)", "other": "last(i)"})
    config = AggregateConfig(plain.node, plain.keys, TEN, plain.aggregates, plain.input, order="arrival")
    operator, out = config.open(), Collected()
    for values in ([None, 5], [1], [9, None]):
        operator.on_batch(
            batch(config, {"key": ["a"] * len(values), "i": values}, [9 - len(values)] * len(values)), out
        )
    operator.on_watermark(TIME_MAX, out)
    assert [(row["one"], row["other"]) for row in out.rows] == [(5, 9)]


def test_first_and_last_of_lists() -> None:
    config = step({"v": "last(v)"}, keys=(), columns={"v": "[int64]"})
    order = {O_NODE: "s", O_TEXT: "t", O_MAJOR: 0, O_INDEX: 0}
    rows = batch(config, {"v": [[1], [2, 3], None]}, [1, 1, 1]).with_columns(
        **{name: pl.lit(value) for name, value in order.items()}, **{O_MINOR: pl.Series([4, 7, 9])}
    )
    operator, out = config.open(), Collected()
    operator.on_batch(rows, out)
    operator.on_watermark(TIME_MAX, out)
    assert out.rows[0]["v"] == [2, 3]


FLOATS = st.none() | st.sampled_from([0.0, -0.0, math.nan, 0.1, 0.2, 1e300, -1e300, 5e-324]) | st.floats(-1e3, 1e3)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), FLOATS, st.integers(-9, 9), st.integers(0, 99)),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_running_rows_hold_all_that_came_so_far(
    drawn: list[tuple[str | None, float | None, int, int]], keyed: bool, seed: int
) -> None:
    rng = random.Random(seed)
    names = ["n", "sum_x", "avg_x", "dev_x", "min_x", "max_x", "sum_i", "dist_x", "dist_sum_x", "few"]
    config = step({name: AGGREGATES[name][0] for name in names}, None, ("key",) if keyed else ())
    operator, out = config.open(), Collected()
    rows = [Row(key if keyed else None, x, i, None, ts, TIME_MIN, 0, n) for n, (key, x, i, ts) in enumerate(drawn)]
    done = 0
    while done < len(rows):
        size = rng.choice([1, 2, 50])
        new = rows[done : done + size]
        done += size
        out.batches.clear()
        columns = {name: [getattr(row, name) for row in new] for name in config.input.names}
        operator.on_batch(batch(config, columns, [row.ts for row in new]), out)
        touched = {row.key for row in new}
        seen = [row for row in rows[:done] if row.key in touched]
        found = {(bits(row.get("key")), *(bits(row[name]) for name in names)) for row in out.rows}
        assert found == {(row[0], *row[3:]) for row in aggregate(seen, lambda _: [(0, TIME_MAX)], names).results}
        assert [row[TS] for row in out.rows] == [
            max(row.ts for row in seen if row.key == made.get("key")) for made in out.rows
        ]
    assert operator.on_watermark(5, out) == 5


def test_a_running_aggregate_needs_no_event_time() -> None:
    config = step({"n": "count(*)"}, None)
    operator, out = config.open(), Collected()
    operator.on_batch(batch(config, {"key": ["a", "a"]}, [None, None]), out)
    assert [(row["n"], row[TS]) for row in out.rows] == [(2, None)]
