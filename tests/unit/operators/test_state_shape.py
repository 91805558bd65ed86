"""The verdict on state that was written, told from configurations and column names alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
import pytest

from headrace.core.batch import TS
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.filter import FilterConfig
from headrace.operators.operator import OperatorConfig
from headrace.operators.state_shape import Compatibility, Fit, WrittenState, fit
from headrace.operators.window.definitions import Tumbling, Window
from headrace.state.parquet import write_chunks
from headrace.state.snapshot import StateKind
from support.oracles.collector import Collected

TEN = Tumbling(10)
INPUT = schema_of({"key": "string", "other": "int64", "x": "float64"})


def step(aggregates: Mapping[str, str], window: Window | None = TEN) -> AggregateConfig:
    return AggregateConfig("step", ("key",), window, tuple(aggregates.items()), INPUT)


def written(config: AggregateConfig) -> dict[str, WrittenState]:
    """What the step really writes."""
    operator = config.open()
    row = {"key": ["a"], "other": [1], "x": [0.5], TS: [5]}
    operator.on_batch(pl.DataFrame(row, schema={**INPUT.polars(), TS: pl.Int64()}), Collected())
    found = {}
    for state in operator.snapshot():
        columns = {name: dtype for file in write_chunks(state.chunks) for name, dtype in file.columns.items()}
        found[state.name] = WrittenState(state.keys, columns)
    return found


OLD = step({"total": "sum(x)", "n": "count(*)", "kinds": "count(distinct x)"})


def verdict(config: OperatorConfig, before: AggregateConfig = OLD) -> Fit:
    return fit("step", config.states(), written(before))


def test_a_step_that_asks_for_the_same_or_more_gets_all_of_it() -> None:
    assert verdict(OLD) == Fit(Compatibility.RESTORED)
    running = step({"total": "sum(x)"}, None)
    assert verdict(running, running) == Fit(Compatibility.RESTORED)
    more = verdict(step({"renamed": "count(*)", "kinds": "count(distinct x)", "total": "sum(x)", "most": "max(other)"}))
    assert more.compatibility is Compatibility.RESTORED
    assert [lane[:8] for lane in more.added] == ["v_other_"]


def test_what_is_not_asked_for_any_more_is_named() -> None:
    less = verdict(step({"n": "count(*)"}))
    assert less.compatibility is Compatibility.PARTLY
    assert {lane.split("_x_")[0] for lane in less.dropped} == {"distinct", "v"}
    gone = verdict(FilterConfig("step", "x > 0", INPUT))
    assert gone.compatibility is Compatibility.PARTLY
    assert gone.dropped == tuple(sorted(written(OLD)))


def test_values_by_count_and_positions_are_restored_and_named_when_they_go() -> None:
    aggregates = {"mid": "median(x)", "high": "quantile_cont(x, 0.9)", "best": "arg_max(other, x)"}
    several = replace(step(aggregates), order="arrival")
    assert verdict(several, several) == Fit(Compatibility.RESTORED)
    less = verdict(step({"n": "count(*)"}), several)
    assert [lane.split("_")[0] for lane in less.dropped] == ["counts", "v"]
    assert less.dropped[1].endswith("_arg_max_arrival")


def test_without_state_a_step_is_new() -> None:
    assert fit("step", OLD.states(), {}) == Fit(Compatibility.NEW)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (step({"n": "count(*)"}, Tumbling(20)), "window tumbling 10 offset 0 UTC, and the step has tumbling 20"),
        (step({"n": "count(*)"}, None), "window tumbling 10 offset 0 UTC, and the step has none"),
        (replace(OLD, keys=("key", "other")), "kept by [key], and the step has key_by [key, other]"),
        (
            replace(OLD, input=schema_of({"key": "int64", "x": "float64"})),
            "key 'key' is Int64, and its state has String",
        ),
    ],
)
def test_other_windows_or_keys_fit_nothing(config: AggregateConfig, reason: str) -> None:
    found = verdict(config)
    assert found.compatibility is Compatibility.INCOMPATIBLE
    assert reason in found.reason


def test_state_without_rows_fits_whatever_it_was_kept_by() -> None:
    states = {state.name: state for state in OLD.open().snapshot()}
    empty = {name: WrittenState(state.keys, {}) for name, state in states.items() if name != "time"}
    (mark,) = states["time"].chunks
    time = WrittenState((), {name: str(dtype) for name, dtype in mark.frame.schema.items()})
    other = replace(OLD, keys=("other",), window=Tumbling(99))
    assert fit("step", other.states(), {**empty, "time": time}) == Fit(Compatibility.RESTORED)


def test_shapes_are_what_snapshots_hold() -> None:
    shapes = {shape.name: shape for shape in OLD.states()}
    states = {state.name: state for state in OLD.open().snapshot()}
    assert shapes.keys() == states.keys()
    assert all(shapes[name].kind is states[name].kind for name in states)
    assert [name for name, shape in shapes.items() if shape.kind is StateKind.KEYED and shape.lanes] == ["windows"]
