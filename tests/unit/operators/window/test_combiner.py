"""Rows that are combined before they travel, in any batches, beside rows that are not: the same bits as without."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import TS, WM
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.aggregation.combining import (
    Combiner,
    CombiningOperator,
    Partials,
    concat_partials,
    split_partials,
)
from headrace.operators.operator import BAD, LATE
from headrace.operators.window.definitions import Tumbling, Window
from headrace.state.redistribute import share
from headrace.state.snapshot import StateKind
from support.oracles.aggregates import AGGREGATES
from support.oracles.collector import Collected
from support.oracles.restoring import MAX_PARALLELISM, restored
from support.oracles.window_log import HOUR, INPUT, WINDOWS, Event, log, play, rows, side_rows, step
from support.suite.properties import weighted


def spread(config: AggregateConfig, partials: Partials, parallelism: int) -> list[tuple[int, Partials]]:
    """Partials by the subtask that owns their keys."""

    def divided(frame: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
        return [
            (number, mine)
            for number in range(parallelism)
            if (mine := share(frame, StateKind.KEYED, config.keys, number, parallelism, MAX_PARALLELISM)).height
        ]

    return list(split_partials(partials, divided))


def combined(
    config: AggregateConfig, combiner: Combiner, batch: pl.DataFrame, left: list[pl.DataFrame], counted: Collected
) -> Partials | None:
    """What the sender's half makes of a batch; rows that it leaves go to `left`."""
    out = Collected()
    made = combiner.combine(batch, out)
    left += out.batches
    assert not out.sides
    counted.counters += out.counters
    assert out.counters["rows_in"] == batch.height - sum(each.height for each in out.batches)
    return made


def run_combined(config: AggregateConfig, events: Sequence[Event], draw: random.Random) -> list[Collected]:
    """Senders combine some batches, several at a time; time passes once, at the end, as in a level."""
    parallelism = draw.randint(1, 3) if config.keys else 1
    operators = [config.open() for _ in range(parallelism)]
    combiner, counted, left, waiting = config.combiner(), Collected(), list[pl.DataFrame](), list[Partials]()
    assert combiner is not None
    assert combiner.keys == config.keys
    for event in events:
        if isinstance(event, int):
            continue
        if draw.random() < 0.3:
            left.append(event)
        elif (made := combined(config, combiner, event, left, counted)) is not None:
            waiting.append(made)
    draw.shuffle(waiting)
    while waiting:
        some = [waiting.pop() for _ in range(min(len(waiting), draw.randint(1, 4)))]
        for number, own in spread(config, concat_partials(some), parallelism):
            operator = operators[number]
            assert isinstance(operator, CombiningOperator)
            operator.take_partials(own)
        if draw.random() < 0.2:
            operators = list(restored(config, [each.snapshot() for each in operators], parallelism))
    outs = play(config, operators, [*left, events[-1]])
    return [*outs, counted]


def result(outs: Sequence[Collected]) -> tuple[object, ...]:
    counted = {name: sum(out.counters[name] for out in outs) for name in ("late", "partly_late", "bad")}
    return sorted(map(repr, rows(outs))), side_rows(outs, LATE), side_rows(outs, BAD), counted


@weighted(0.4)
@given(
    st.sampled_from(WINDOWS),
    st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=6, unique=True),
    st.sampled_from([(), ("key",), ("x",), ("key", "i")]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_combined_and_not_is_the_same(
    window: Window, names: list[str], keys: tuple[str, ...], failing: bool, seed: int
) -> None:
    draw = random.Random(seed)
    config = replace(step(names, window), keys=keys)
    if failing:
        config = replace(config, aggregates=(*config.aggregates, ("failing", "sum(i * 16)")))
    events = log(draw, draw.randint(1, 80), draw.choice([1, 5, 40]))
    straight = play(config, [config.open()], events)
    assert result(run_combined(config, events, draw)) == result(straight)


@pytest.mark.parametrize(
    "config",
    [
        step(["n"], None),
        replace(step(["n"]), allowed_lateness_ms=HOUR),
        replace(step(["n"]), lateness="operator"),
        replace(step(["first_s"]), order="arrival"),
    ],
    ids=["running", "fires again", "judged by the operator", "by arrival"],
)
def test_steps_whose_rows_must_come_as_they_are_have_no_combiner(config: AggregateConfig) -> None:
    assert config.combiner() is None


def test_late_rows_are_left_and_all_of_a_batch_in_which_one_fails() -> None:
    config = replace(step(["n"], Tumbling(10)), aggregates=(("n", "sum(i * 16)"),))
    combiner = config.combiner()
    assert combiner is not None

    def batch(times: list[int], numbers: list[int]) -> pl.DataFrame:
        columns = {"key": "a", "x": None, "i": numbers, "s": None, TS: times, WM: 15}
        return pl.DataFrame(columns, schema={**INPUT.polars(), TS: pl.Int64(), WM: pl.Int64()})

    out = Collected()
    made = combiner.combine(batch([5, 12, 25], [1, 1, 1]), out)
    assert made is not None
    assert [frame.height for frame in made.parts] == [2]
    assert [frame.get_column(TS).to_list() for frame in out.batches] == [[5]]
    assert out.counters == {"rows_in": 2}
    out = Collected()
    assert combiner.combine(batch([12, 25], [1, 2**61]), out) is None
    assert [frame.get_column(TS).to_list() for frame in out.batches] == [[12, 25]]
    assert not out.counters
    out = Collected()
    assert combiner.combine(batch([1, 2], [1, 1]), out) is None
    assert sum(frame.height for frame in out.batches) == 2
