"""Configs describe their steps: text, needs, outputs and states, which planner and engines ask for."""

from __future__ import annotations

import pickle

import pytest

from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.explode import ExplodeConfig
from headrace.operators.filter import FilterConfig
from headrace.operators.map import MapConfig
from headrace.operators.operator import LATE, InputNeeds, OperatorConfig
from headrace.operators.project import ProjectConfig
from headrace.operators.rename import DropConfig, RenameConfig
from headrace.operators.union import UnionConfig
from headrace.operators.window.definitions import Cumulate, Tumbling, Window

INPUT = schema_of({"key": "string", "x": "int64", "tags": "[string]"})


def aggregate(text: str, window: Window | None = None, **fields: object) -> AggregateConfig:
    return AggregateConfig("step", ("key",), window, (("made", text),), INPUT, **fields)  # type: ignore[arg-type]


ROW_WISE: list[tuple[OperatorConfig, str, InputNeeds]] = [
    (FilterConfig("step", "x > 1", INPUT), "x > 1", InputNeeds()),
    (FilterConfig("step", "cast(key as int64) > 1", INPUT), "cast(key as int64) > 1", InputNeeds(fails=True)),
    (
        ProjectConfig("step", (("key", None), ("at", "now()")), INPUT),
        "key, at = now()",
        InputNeeds(time=True),
    ),
    (DropConfig("step", ("x", "tags"), INPUT), "x, tags", InputNeeds()),
    (RenameConfig("step", (("x", "y"),), INPUT), "x to y", InputNeeds()),
    (ExplodeConfig("step", "tags", INPUT), "tags", InputNeeds()),
    (UnionConfig("step", ("a", "b"), INPUT), "a, b", InputNeeds()),
    (MapConfig("step", "some:function", INPUT, INPUT), "some:function", InputNeeds(fails=True)),
]


@pytest.mark.parametrize(("config", "text", "needs"), ROW_WISE)
def test_a_row_wise_step_has_text_and_needs_and_nothing_else(
    config: OperatorConfig, text: str, needs: InputNeeds
) -> None:
    assert (config.describe(), config.needs()) == (text, needs)
    assert (config.states(), dict(config.side_outputs()), config.given_state(), config.combiner()) == (
        (),
        {},
        None,
        None,
    )
    assert (config.makes_rows, config.windowed, config.held_back_ms) == (False, False, 0)
    assert config.ordered() is config
    assert set(config.input_schemas()) == {INPUT}


def test_random_values_are_a_reason_not_to_replay() -> None:
    (reason,) = FilterConfig("step", "random() > 0.5", INPUT).needs().not_replayable
    assert "random" in reason


def test_only_a_filter_is_there_to_leave_rows_out() -> None:
    assert [type(config) for config, _, _ in ROW_WISE if config.selects_rows] == [FilterConfig, FilterConfig]


def test_a_running_aggregate_describes_itself() -> None:
    config = aggregate("count(*)")
    assert config.describe() == "made = count(*); by key; running"
    assert config.needs() == InputNeeds()
    assert (config.makes_rows, config.windowed, dict(config.side_outputs())) == (True, False, {})
    assert [state.name for state in config.states()] == ["groups", "time"]
    assert config.given_state() is not None
    assert config.combiner() is None


def test_a_windowed_aggregate_describes_itself() -> None:
    config = aggregate("first(x)", Cumulate(86_400_000, 3_600_000), allowed_lateness_ms=60_000)
    assert config.describe() == "made = first(x); by key; cumulate 1d every 1h; allowed lateness 1m"
    assert config.needs() == InputNeeds(order=True, time=True)
    assert (config.windowed, config.held_back_ms, dict(config.side_outputs())) == (True, 60_000, {LATE: INPUT})
    assert [state.name for state in config.states()] == ["windows", "time"]
    assert config.ordered().order_output
    assert aggregate("count(*)", Tumbling(10)).combiner() is not None


def test_arrival_and_the_operator_s_lateness_are_reasons_not_to_replay() -> None:
    needs = aggregate("last(x)", Tumbling(10), order="arrival", lateness="operator").needs()
    assert (needs.order, needs.time) == (False, True)
    assert [reason.partition(":")[0] for reason in needs.not_replayable] == ["lateness", "order"]
    assert aggregate("count(*)", Tumbling(10), order="arrival").needs().not_replayable == ()


def test_a_config_travels_to_other_processes() -> None:
    for config in (aggregate("count(*)", Tumbling(10)), *(config for config, _, _ in ROW_WISE)):
        assert pickle.loads(pickle.dumps(config)) == config
        assert not hasattr(config, "__dict__")
