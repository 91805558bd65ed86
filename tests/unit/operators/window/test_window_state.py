"""State of aggregates: cut anywhere, through files, to any parallelism, and on: the same bits as the straight run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import TS
from headrace.core.errors import UserError
from headrace.core.signals import TIME_MAX
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.aggregates.needs import Order
from headrace.operators.operator import BAD, LATE
from headrace.operators.state_shape import Compatibility, WrittenState, fit
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from headrace.state.snapshot import StateSnapshot
from support.oracles.aggregates import AGGREGATES, bits
from support.oracles.collector import Collected
from support.oracles.restoring import as_restored, restored
from support.oracles.window_log import HOUR, INPUT, WINDOWS, log, play, rows, side_rows, step
from support.suite.properties import weighted


def result(config: AggregateConfig, outs: Sequence[Collected]) -> object:
    """Multiset of rows where rows are appended, else the last row per key; late and failed rows and counters too."""
    made = rows(outs)
    late = side_rows(outs, LATE), side_rows(outs, BAD)
    counted = {name: sum(out.counters[name] for out in outs) for name in ("late", "partly_late", "bad")}
    if config.window is not None and not config.allowed_lateness_ms:
        return sorted(map(repr, made)), late, counted
    places = len(config.keys) + (2 if config.window else 0)
    return {row[:places]: row for row in made}, late, counted


def check(config: AggregateConfig, seed: int) -> None:
    rng = random.Random(seed)
    events = log(rng, rng.randint(1, 60), rng.choice([1, 5, 40]))
    most = 3 if config.keys else 1
    cut = rng.randint(0, len(events) - 1)
    operators = [config.open() for _ in range(rng.randint(1, most))]
    play(config, operators, events[:cut])
    snapshots = [operator.snapshot() for operator in operators]
    straight = play(config, operators, events[cut:])
    others = restored(config, snapshots, rng.randint(1, most))
    again = rng.randint(cut, len(events) - 1)
    first = play(config, others, events[cut:again])
    others = restored(config, [other.snapshot() for other in others], rng.randint(1, most))
    second = play(config, others, events[again:])
    assert result(config, straight) == result(config, [*first, *second])


@weighted(0.4)
@given(
    st.sampled_from(WINDOWS),
    st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=5, unique=True),
    st.sampled_from([0, 0, HOUR, 20 * HOUR]),
    st.sampled_from(["event", "arrival"]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_windows_go_on_from_any_cut_at_any_parallelism(
    window: Window,
    names: list[str],
    allowed: int,
    order: Order,
    keyed: bool,
    seed: int,
) -> None:
    config = step(names, window, keyed=keyed)
    check(replace(config, allowed_lateness_ms=allowed, order=order), seed)


@weighted(0.2)
@given(st.sampled_from(WINDOWS), st.integers(0, 2**32))
def test_windows_judged_by_the_operator_go_on_too(window: Window, seed: int) -> None:
    check(replace(step(["n", "dist_x"], window), lateness="operator", allowed_lateness_ms=HOUR), seed)


@weighted(0.3)
@given(
    st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=5, unique=True),
    st.sampled_from(["event", "arrival"]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_running_aggregates_go_on_from_any_cut_at_any_parallelism(
    names: list[str],
    order: Order,
    keyed: bool,
    seed: int,
) -> None:
    check(replace(step(names, None, keyed=keyed), order=order), seed)


def ids(states: Sequence[StateSnapshot]) -> dict[str, dict[int, pl.DataFrame]]:
    return {state.name: {chunk.id: chunk.frame for chunk in state.chunks} for state in states}


@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[2], None])
def test_a_chunk_that_did_not_change_keeps_its_number_and_rows(window: Window | None) -> None:
    rng = random.Random(3)
    operator = step(["n", "sum_x", "dist_i"], window).open()
    before: dict[str, dict[int, pl.DataFrame]] = {}
    kept = written = 0
    for event in log(rng, 600, 3):
        if isinstance(event, int):
            operator.on_watermark(event, Collected())
        else:
            operator.on_batch(event, Collected())
        now = ids(operator.snapshot())
        assert {name: set(chunks) for name, chunks in now.items()} == {
            name: set(chunks) for name, chunks in ids(operator.snapshot()).items()
        }
        for name, chunks in now.items():
            for number, frame in chunks.items():
                if number in before.get(name, {}):
                    kept += frame.height
                    assert frame.equals(before[name][number])
                else:
                    written += frame.height
        before = now
    assert kept > 3 * written


def carried_over(before: AggregateConfig, after: AggregateConfig, seed: int = 1) -> list[dict[str, object]]:
    """Rows of `after`, which goes on from the state of `before` in the middle of a log."""
    events = log(random.Random(seed), 50, 5)
    operator = before.open()
    play(before, [operator], events[:12])
    return play(after, restored(after, [operator.snapshot()], 2), events[12:])[0].rows


@pytest.mark.parametrize("window", [WINDOWS[0], None])
def test_aggregates_may_be_added_dropped_and_put_in_another_order(window: Window | None) -> None:
    names = ["n", "sum_x", "first_s", "dist_x", "few"]
    before = step(names, window)
    straight = carried_over(before, before)
    other = step(["min_s", "few", "dist_x", "dist_i", "first_s", "sum_x"], window)
    shared = [name for name in names if name != "n"]
    changed = carried_over(before, other)
    assert [[bits(row[name]) for name in shared] for row in changed] == [
        [bits(row[name]) for name in shared] for row in straight
    ]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (step(["n"], Tumbling(5 * HOUR)), "window tumbling 36000000 offset 0 UTC"),
        (step(["n"], None), "the step has none"),
        (replace(step(["n"]), keys=("s",)), "key 's' is String, and its state has no such column"),
        (replace(step(["n"]), keys=("key", "i")), "key 'i' is Int64"),
        (step(["n"], keyed=False), "its state has key 'key'"),
        (replace(step(["n"]), input=schema_of({"key": "int64"})), "key 'key' is Int64, and its state has String"),
    ],
)
def test_state_of_other_keys_or_windows_is_refused(other: AggregateConfig, said: str) -> None:
    operator = step(["n"]).open()
    operator.on_batch(next(event for event in log(random.Random(0), 9, 9) if not isinstance(event, int)), Collected())
    states: Mapping[str, list[pl.DataFrame]] = {
        state.name: [chunk.frame for chunk in state.chunks] for state in operator.snapshot()
    }
    with pytest.raises(UserError, match="step step") as refused:
        other.open().restore(as_restored(states))
    assert said in refused.value.message
    assert refused.value.remedy


@pytest.mark.parametrize("window", [Tumbling(10 * HOUR), None])
def test_arrivals_after_a_restore_come_after_those_before_it(window: Window | None) -> None:
    aggregates = (("one", "first(i)"), ("other", "last(i)"))
    config = AggregateConfig("step", ("key",), window, aggregates, INPUT, order="arrival")

    def rows_of(*numbers: int) -> pl.DataFrame:
        data = {"key": ["a"] * len(numbers), "x": None, "i": numbers, "s": None, TS: [HOUR] * len(numbers)}
        return pl.DataFrame(data, schema={**INPUT.polars(), TS: pl.Int64()})

    operator = config.open()
    operator.on_batch(rows_of(3, 9, 8), Collected())
    (other,) = restored(config, [operator.snapshot()], 1)
    (last,) = restored(config, [other.snapshot()], 1)
    out = Collected()
    last.on_batch(rows_of(1), out)
    last.on_watermark(TIME_MAX, out)
    assert [(row["one"], row["other"]) for row in out.rows] == [(3, 1)]


@pytest.mark.parametrize("allowed", [0, HOUR])
def test_after_the_end_of_time_nothing_is_left_and_later_rows_count_anew(allowed: int) -> None:
    config = replace(step(["n"], Tumbling(10)), allowed_lateness_ms=allowed)
    rows_of = pl.DataFrame(
        {"key": ["a"], "x": None, "i": 1, "s": None, TS: [5]}, schema={**INPUT.polars(), TS: pl.Int64()}
    )
    operator = config.open()
    operator.on_batch(rows_of, Collected())
    operator.on_watermark(TIME_MAX, Collected())
    states = operator.snapshot()
    assert [(state.name, state.rows) for state in states] == [("windows", 0), ("time", 1)]
    (other,) = restored(replace(config, window=Tumbling(5)), [states], 1)  # and they may count by other windows
    out = Collected()
    other.on_batch(rows_of, out)
    assert out.rows == []
    other.on_watermark(9, out)
    assert [row["n"] for row in out.rows] == [1]


def elapsed_time_state(window: Window, ts: int) -> Mapping[str, list[pl.DataFrame]]:
    """State with one row, as versions wrote it that divided local days by elapsed time."""
    operator = step(["n"], window).open()
    columns = {"key": ["a"], "x": [1.0], "i": [1], "s": ["p"], TS: [ts]}
    operator.on_batch(pl.DataFrame(columns, schema={**INPUT.polars(), TS: pl.Int64()}), Collected())
    states = {state.name: [chunk.frame for chunk in state.chunks] for state in operator.snapshot()}
    states["time"] = [frame.rename(lambda name: name.removesuffix(":wall")) for frame in states["time"]]
    assert not any(name.endswith("wall") for frame in states["time"] for name in frame.columns)
    return states


DIVIDED: list[Window] = [
    Tumbling(12 * HOUR, timezone="Europe/Berlin"),
    Sliding(24 * HOUR, HOUR, timezone="Europe/Berlin"),
    Cumulate(48 * HOUR, 24 * HOUR, timezone="Europe/Berlin"),
]


@pytest.mark.parametrize("window", DIVIDED)
def test_state_of_elapsed_time_goes_on_where_no_clock_changes(window: Window) -> None:
    config, june = step(["n"], window), 1_717_243_200_000
    states = elapsed_time_state(window, june)
    operator, out = config.open(), Collected()
    operator.restore(as_restored(states))
    operator.on_watermark(TIME_MAX, out)
    assert rows([out])
    written = {
        name: WrittenState(("key",) if name == "windows" else (), {n: str(t) for n, t in frames[0].schema.items()})
        for name, frames in states.items()
    }
    assert fit("step", config.states(), written).compatibility is Compatibility.RESTORED


@pytest.mark.parametrize("window", DIVIDED)
def test_state_of_elapsed_time_is_refused_where_clocks_change(window: Window) -> None:
    autumn = 1_729_980_000_000  # 2024-10-27 in Berlin, a day of 25 hours
    with pytest.raises(UserError, match="clocks change in its open windows") as refused:
        step(["n"], window).open().restore(as_restored(elapsed_time_state(window, autumn)))
    assert "closed" in (refused.value.remedy or "")


@pytest.mark.parametrize(("window", "windows"), [(Tumbling(10), 1), (Sliding(10, 2), 5), (Cumulate(10, 5), 2)])
def test_large_windows_that_share_a_pane_have_all_of_its_groups(window: Window, windows: int) -> None:
    """Each large window is merged alone; the last one may take the groups out of the kernel's table."""
    keys = [f"k{number}" for number in range(5_000)]
    data = {"key": keys, "x": None, "i": 1, "s": None, TS: 0}
    operator, out = (
        AggregateConfig("step", ("key",), window, (("n", "count(*)"), ("i", "sum(i)")), INPUT).open(),
        Collected(),
    )
    operator.on_batch(pl.DataFrame(data, schema={**INPUT.polars(), TS: pl.Int64()}), out)
    operator.on_watermark(TIME_MAX, out)
    found = out.frame.group_by("window_end").agg(pl.col("key").sort(), pl.col("n").sum(), pl.col("i").sum())
    assert found.height == windows
    assert found.select("n", "i").rows() == [(5_000, 5_000)] * windows
    assert all(each == sorted(keys) for each in found.get_column("key").to_list())
