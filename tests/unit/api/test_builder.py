"""The builder and the YAML file make the same model and the same plan."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import headrace
from headrace import api as hr
from headrace.core.errors import InvalidPipelineError, UserError
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobState, Progress
from headrace.local.pipeline_file import load_file
from headrace.plan.explain import explain_dict
from headrace.spec.pipeline import Pipeline as PipelineModel
from headrace.spec.reading.load import load_text
from headrace.worker.state.local_files import LocalFiles, MappedRows

YAML = """
name: delays
parallelism: 2
checkpoint: {interval: 30s}
sources:
  flights:
    generator:
      rows: 1000
      seed: 7
      columns:
        origin: {choice: [JFK, LGA]}
        carrier: {string: {length: 2}}
        delay: {float: {min: -10, max: 90}, nulls: 0.1}
        at: {time: {start: "2013-01-01T00:00:00Z", step: 10s, jitter: 1m}}
    schema:
      origin: string not null
      carrier: string
      delay: float64
      at: timestamp
    time:
      column: at
      out_of_orderness: 30m
    on_error: divert
steps:
  departed:
    from: flights
    filter: delay is not null and (delay > -5 or origin in ('JFK', 'LGA'))
    parallelism: 1
  shaped:
    from: departed
    with_columns:
      late: delay >= 15
      code: upper(carrier)
  hourly:
    from: shaped
    key_by: [origin]
    window: {sliding: 1h, every: 30m}
    aggregate:
      flights: count(*)
      mean_delay: avg(delay)
      late: count(*) filter (where late)
      share: count(distinct code) / count(*)
    lateness: operator
  narrow:
    from: hourly
    select: [origin, flights]
  again:
    from: narrow
    select:
      origin: lower(origin)
      flights: flights * 1
  both:
    union: [narrow, again]
  renamed:
    from: both
    rename: {flights: n}
sinks:
  delays:
    from: renamed
    files:
      path: out/delays
    format: json
  late_rows:
    from: hourly.late
    files:
      path: out/late
    format: csv
  bad_rows:
    from: flights.bad
    print: {}
"""


def _built() -> hr.Pipeline:
    pipeline = hr.Pipeline("delays", parallelism=2, checkpoint={"interval": timedelta(seconds=30)})
    flights = pipeline.source(
        "flights",
        generator={
            "rows": 1000,
            "seed": 7,
            "columns": {
                "origin": {"choice": ["JFK", "LGA"]},
                "carrier": {"string": {"length": 2}},
                "delay": {"float": {"min": -10, "max": 90}, "nulls": 0.1},
                "at": {"time": {"start": "2013-01-01T00:00:00Z", "step": "10s", "jitter": "1m"}},
            },
        },
        schema={"origin": "string not null", "carrier": "string", "delay": "float64", "at": "timestamp"},
        time={"column": "at", "out_of_orderness": timedelta(minutes=30)},
        on_error="divert",
    )
    delay, origin = hr.col("delay"), hr.col("origin")
    wanted = delay.is_not_null() & ((delay > -5) | origin.is_in(["JFK", "LGA"]))
    shaped = flights.filter("departed", wanted, parallelism=1).with_columns(
        "shaped", {"late": delay >= 15, "code": hr.fn("upper", hr.col("carrier"))}
    )
    hourly = shaped.aggregate(
        "hourly",
        key_by=["origin"],
        window={"sliding": "1h", "every": timedelta(minutes=30)},
        aggregate={
            "flights": "count(*)",
            "mean_delay": hr.avg(delay),
            "late": hr.count().where(hr.col("late")),
            "share": hr.count(hr.col("code")).distinct() / hr.count(),
        },
        lateness="operator",
    )
    narrow = hourly.select("narrow", ["origin", "flights"])
    again = narrow.select("again", {"origin": hr.fn("lower", origin), "flights": hr.col("flights") * 1})
    both = hr.union("both", narrow, again).rename("renamed", {"flights": "n"})
    both.sink("delays", files={"path": Path("out/delays")}, format="json")
    hourly.late.sink("late_rows", files={"path": "out/late"}, format="csv")
    flights.bad.sink("bad_rows", print={})
    return pipeline


def _plans(model: PipelineModel) -> dict[str, Any]:
    compiled = compile_pipeline(model)
    return explain_dict(compiled.logical, compiled.physical)


def test_the_file_and_the_builder_give_equal_models_and_identical_plans() -> None:
    read, built = load_text(YAML, "delays.yaml", environ={}).pipeline, _built().build()
    assert built == read
    assert compile_pipeline(built).physical == compile_pipeline(read).physical
    one, other = _plans(built), _plans(read)
    assert json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert one["physical"]["hash"] == other["physical"]["hash"]


def test_the_yaml_of_a_builder_loads_back_to_an_equal_model() -> None:
    text = _built().to_yaml()
    assert load_text(text, "again.yaml", environ={}).pipeline == _built().build()
    assert "delay is not null and (delay > -5 or origin in ('JFK', 'LGA'))\n" in text


def test_odd_texts_survive_the_way_through_yaml() -> None:
    pipeline, rows = _source()
    odd = "a: b # c, [d] ${HOME} $${X} 'q' \"p\"\n\ttab \\ é " + "long " * 40
    rows.with_columns("odd", {"x": hr.lit(odd), "y": hr.lit("123"), "z": 1, "n": None}).sink("out", print={})
    pipeline.test(
        "case", inputs={"rows": [{"key": "null", "amount": 15, "at": None}]}, outputs={"out": [{"x": odd, "z": 1}]}
    )
    assert load_text(pipeline.to_yaml(), "odd.yaml", environ={}).pipeline == pipeline.build()


def test_the_public_names_are_those_of_headrace() -> None:
    for name in hr.__all__:
        assert getattr(headrace, name) is getattr(hr, name)


def _source() -> tuple[hr.Pipeline, hr.Stream]:
    pipeline = hr.Pipeline("p")
    columns = {
        "key": {"choice": ["a", "b", "c"]},
        "amount": {"int": {"min": 0, "max": 9}},
        "at": {"time": {"start": "2024-01-01T00:00:00Z", "step": "1s"}},
    }
    rows = pipeline.source(
        "rows",
        generator={"rows": 600, "seed": 3, "columns": columns},
        schema={"key": "string not null", "amount": "int64", "at": "timestamp"},
        time={"column": "at"},
    )
    return pipeline, rows


def test_names_taken_twice_are_refused_at_once() -> None:
    pipeline, rows = _source()
    rows.filter("some", "amount > 1")
    with pytest.raises(UserError, match="has a step 'some' already"):
        rows.sink("some", print={})
    with pytest.raises(UserError, match="has a source 'rows' already"):
        pipeline.source("rows", schema={"a": "string"}, memory={})


def test_streams_of_two_pipelines_do_not_unite() -> None:
    _, one = _source()
    _, other = _source()
    with pytest.raises(UserError, match="step 'both' reads 'rows' of another pipeline"):
        one.union("both", other)


def test_a_sink_has_an_output_for_the_rows_that_it_leaves_out() -> None:
    pipeline, rows = _source()
    out = rows.sink("out", kafka={"brokers": "b:1", "topic": "t"}, format="json", on_error="divert")
    out.bad.select("short", ["reason"]).sink("kept", print={})
    assert pipeline.build().steps["short"].from_ == "out.bad"
    rows.sink("letters", kafka={"brokers": "b:1", "topic": "t"}, format="json", on_error={"dead_letter": "dead"})
    assert "letters.bad" in pipeline.explain()


def test_a_side_output_has_no_side_output() -> None:
    _, rows = _source()
    with pytest.raises(UserError, match=r"rows\.late is a side output"):
        _ = rows.late.bad


def test_problems_carry_dotted_paths() -> None:
    pipeline, rows = _source()
    rows.aggregate("totals", key_by=["key"], window={"tumbling": "soon"}, aggregate={"n": "count(*)"}).sink(
        "out", prind={}
    )
    with pytest.raises(InvalidPipelineError) as caught:
        pipeline.build()
    paths = {".".join(problem.path) for problem in caught.value.problems}
    assert "steps.totals.window.tumbling" in paths
    assert any(path.startswith("sinks.out") for path in paths)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (lambda rows: rows.sink("out", files={"path": object()}), "sinks.out.files.path"),
        (lambda rows: rows.with_columns("more", {"x": b"raw"}), "steps.more.with_columns.x"),
        (
            lambda rows: rows.aggregate("agg", aggregate={"n": "count(*)"}, window={"tumbling": timedelta(0, 0, 1)}),
            "steps.agg.window.tumbling",
        ),
    ],
)
def test_values_that_no_file_holds_are_refused_with_their_place(
    wrong: Callable[[hr.Stream], object], where: str
) -> None:
    _, rows = _source()
    with pytest.raises(UserError, match=where.replace(".", r"\.")) as caught:
        wrong(rows)
    assert caught.value.remedy


def _module(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """The module beside this file, importable by that name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__(name)


def test_a_function_is_named_by_its_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = _module(monkeypatch, "mapped")
    pipeline, rows = _source()
    schema = {"key": "string not null", "amount": "int64"}
    rows.map("by_object", function=mapped.doubled, schema=schema).sink("a", print={})
    rows.map("by_path", function="mapped:doubled", schema=schema).sink("b", print={})
    steps = pipeline.build().steps
    assert steps["by_object"].verb == steps["by_path"].verb


_IN_SCRIPT: dict[str, Any] = {"__name__": "__main__"}
exec("def in_script(rows): return rows", _IN_SCRIPT)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda rows: rows, "a lambda cannot be imported"),
        (functools.partial(pl.DataFrame.head, n=1), "a partial has no import path"),
        (_IN_SCRIPT["in_script"], "is in the script that runs"),
    ],
)
def test_functions_without_an_import_path_are_refused(function: Any, why: str) -> None:
    _, rows = _source()
    with pytest.raises(UserError, match=rf"steps\.twice\.map: .*{why}") as caught:
        rows.map("twice", function=function, schema={"key": "string"})
    assert caught.value.remedy is not None
    assert "top level of a module" in caught.value.remedy


def test_a_nested_and_a_replaced_function_are_refused() -> None:
    def nested(rows: pl.DataFrame) -> pl.DataFrame:
        return rows

    _, rows = _source()
    with pytest.raises(UserError, match="is made inside of a function"):
        rows.map("one", function=nested, schema={"key": "string"})
    nested.__qualname__ = "no_such_function"
    with pytest.raises(UserError, match="does not give this function"):
        rows.map("two", function=nested, schema={"key": "string"})


def test_a_run_from_generator_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = _module(monkeypatch, "mapped")
    pipeline, rows = _source()
    kept = rows.filter("kept", hr.col("amount") > 2)
    kept.map("doubled", function=mapped.doubled, schema={"key": "string not null", "amount": "int64"}).sink(
        "all_rows", files={"path": tmp_path / "all"}, format="json"
    )
    kept.aggregate(
        "minutes",
        key_by=["key"],
        window={"tumbling": timedelta(minutes=1)},
        aggregate={"n": hr.count(), "total": hr.sum_(hr.col("amount"))},
    ).sink("totals", files={"path": tmp_path / "totals"}, format="json")
    seen: list[Progress] = []
    result = pipeline.run(on_progress=seen.append)
    every = pl.concat([pl.read_ndjson(file) for file in (tmp_path / "all").glob("part-*")])
    totals = pl.concat([pl.read_ndjson(file) for file in (tmp_path / "totals").glob("part-*")])
    assert result.state is JobState.FINISHED
    assert result.rows_in == 600
    assert result.rows_out == every.height + totals.height
    assert (result.late, result.bad) == (0, 0)
    assert result.seconds > 0
    assert totals["n"].sum() == every.height > 0
    assert totals["total"].sum() * 2 == every["amount"].sum()


def large_state(folder: Path, out: Path) -> hr.Pipeline:
    """70 MB of keys, over a budget of 32 MiB."""
    state = {"backend": "disk", "memory": "32MiB", "dir": str(folder)}
    pipeline = hr.Pipeline("large", state=state)
    rows = pipeline.source(
        "rows",
        generator={
            "rows": 140_000,
            "columns": {"n": {"sequence": {}}, "key": {"string": {"length": 500}}, "at": {"time": {"step": "1ms"}}},
        },
        schema={"n": "int64 not null", "key": "string not null", "at": "timestamp not null"},
        time={"column": "at"},
    )
    day = {"tumbling": "1d"}
    by_key = rows.aggregate("by_key", key_by=["key"], window=day, aggregate={"total": "sum(n)"})
    whole = by_key.aggregate("whole", window=day, aggregate={"keys": "count(*)", "total": "sum(total)"})
    whole.sink("out", files={"path": out}, format="json")
    return pipeline


def test_state_beyond_its_budget_lies_on_disk_also_in_a_run_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[int] = []
    kept = LocalFiles.kept

    def counted(files: LocalFiles, frame: pl.DataFrame) -> MappedRows:
        moved.append(frame.height)
        return kept(files, frame)

    monkeypatch.setattr(LocalFiles, "kept", counted)
    assert large_state(tmp_path / "local", tmp_path / "out").run().state is JobState.FINISHED
    (found,) = (pl.read_ndjson(file).row(0, named=True) for file in (tmp_path / "out").glob("part-*"))
    assert (found["keys"], found["total"]) == (140_000, sum(range(140_000)))
    assert moved
    assert list((tmp_path / "local").iterdir()) == [], "files have no names"


def test_a_folder_of_state_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match="local files of state cannot be written to"):
        large_state(tmp_path / "file", tmp_path / "out").run()


def test_an_endless_run_ends_when_it_is_told_to() -> None:
    pipeline = hr.Pipeline("endless")
    rows = pipeline.source(
        "rows", generator={"rate": 1000, "columns": {"n": {"sequence": {"start": 1}}}}, schema={"n": "int64 not null"}
    )
    rows.filter("none", "n < 0").sink("out", print={})
    result = pipeline.run(stop_when=lambda progress: progress.rows_in > 0)
    assert result.state is JobState.CANCELED
    assert result.rows_in > 0


def test_a_python_file_is_a_pipeline_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "made_in_python.py"
    file.write_text(
        "import headrace as hr\n"
        "import polars as pl\n"
        "def same(rows: pl.DataFrame) -> pl.DataFrame:\n"
        "    return rows\n"
        "p = hr.Pipeline('made')\n"
        "rows = p.source('rows', generator={'rows': 5, 'columns': {'n': {'sequence': {'start': 1}}}},\n"
        "                schema={'n': 'int64'})\n"
        "rows.map('kept', function=same, schema={'n': 'int64'}).sink('out', print={})\n"
    )
    loaded = load_file(str(file)).pipeline
    assert loaded == hr.load(f"{file}:p")
    assert loaded.steps["kept"].to_dict()["map"]["function"] == "made_in_python:same"
    assert "step kept" in hr.explain(loaded)
    assert hr.run(loaded).rows_out == 5


def test_load_reads_yaml_with_overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "p.yaml"
    file.write_text(YAML)
    assert hr.load(file, set_=["sources.flights.generator.rows=5"], parallelism=3).parallelism == 3


def test_explain_is_what_the_command_prints() -> None:
    assert _built().explain().startswith("delays: ")
