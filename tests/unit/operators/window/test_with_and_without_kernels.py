"""The group-by kernel and polars compute the same windows, bit for bit, and go on from each other's state."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import TS, WM
from headrace.core.signals import TIME_MAX
from headrace.core.types import polars_type, schema_of
from headrace.kernels.group.group_by import GroupTable
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.aggregates import compiled
from headrace.operators.operator import Operator
from headrace.operators.window import state
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from support.kernels.group_frames import column
from support.oracles.collector import Collected
from support.oracles.restoring import restored
from support.suite.properties import weighted

pytestmark = pytest.mark.turns(3)

INPUT = schema_of(
    {
        "k": "int64",
        "t": "string",
        "i": "int32",
        "l": "int64",
        "x": "float64",
        "f": "float32",
        "d": "decimal(12,2)",
        "at": "timestamp",
    }
)
AGGREGATES = {
    "n": "count(*)",
    "n_x": "count(x)",
    "few": "sum(l) filter (where i > 0)",
    "s_i": "sum(i)",
    "s_d": "sum(d)",
    "s_x": "sum(x)",
    "a_f": "avg(f)",
    "a_l": "avg(i + 1)",
    "dev": "stddev(x)",
    "low": "min(x)",
    "high": "max(f)",
    "last": "max(at)",
    "least": "min(d)",
    "most": "max(l)",
    "every": "bool_and(i > 0)",
    "some": "bool_or(x < 0)",
}
WINDOWS: list[Window | None] = [Tumbling(10), Sliding(10, 3), Sliding(10, 5), Cumulate(12, 4), None]


@contextmanager
def kernels(*, on: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not on:
            patch.setattr(compiled, "is_loaded", lambda: False)
        yield


def batches(seed: int, count: int) -> list[tuple[pl.DataFrame, int]]:
    """Batches, each with a watermark that no later row contradicts."""
    draw = random.Random(seed)
    made: list[tuple[pl.DataFrame, int]] = []
    begin, latest = -30, -(1 << 40)
    for _ in range(count):
        rows = draw.choice([1, 2, 20, 300])
        columns = {item.name: column(draw, polars_type(item.type), rows, spread=6) for item in INPUT}
        # a sum of int64 may not overflow: that is an error, which names its first row
        columns["l"] = columns["l"] % 1_000_000
        times = [begin + draw.randint(-3, draw.choice([3, 12, 80])) for _ in range(rows)]
        watermarks = [latest := max(latest, time - 6) for time in times]
        columns |= {TS: pl.Series(times, dtype=pl.Int64), WM: pl.Series(watermarks, dtype=pl.Int64)}
        batch = pl.DataFrame(columns)
        is_late = any(wm >= time for wm, time in zip(watermarks, times, strict=True))
        made.append((batch if is_late else batch.drop(WM), latest))
        begin += draw.randint(0, 12)
    return made


@pytest.mark.parametrize("window", WINDOWS)
@weighted(0.5)
@given(
    seed=st.integers(0, 2**32),
    keys=st.sampled_from([("k",), ("t",), ("k", "t"), ("d", "i"), ("x",), ()]),
    aggregates=st.lists(st.sampled_from(list(AGGREGATES)), min_size=0, max_size=5, unique=True),
    allowed=st.sampled_from([0, 0, 7]),
    is_large=st.booleans(),
)
def test_results_and_state_are_the_same(
    window: Window | None, seed: int, keys: tuple[str, ...], aggregates: list[str], allowed: int, is_large: bool
) -> None:
    chosen = tuple((name, AGGREGATES[name]) for name in aggregates)
    config = AggregateConfig("step", keys, window, chosen, INPUT, allowed if window else 0)
    data = batches(seed, 12)
    whole = played(config, [False], data)
    with pytest.MonkeyPatch.context() as patched:
        if is_large:
            # each window is merged alone
            patched.setattr(state, "_WINDOW_ROWS_LARGE", 0)
        assert whole == played(config, [True], data)
        assert whole == played(config, [True, False, True], data)
        assert whole == played(config, [False, True], data)


def played(config: AggregateConfig, turns: list[bool], data: list[tuple[pl.DataFrame, int]]) -> list[str]:
    """What the step makes of the batches: for an equal part of them it runs with kernels, or without, and passes its
    state on."""
    out, operator = Collected(), None
    share = -(-len(data) // len(turns))
    for turn, on in enumerate(turns):
        with kernels(on=on):
            operator = config.open() if operator is None else _carried(config, operator)
            for number, (batch, watermark) in enumerate(data[turn * share : (turn + 1) * share]):
                operator.on_batch(batch, out)
                if number % 2:
                    operator.on_watermark(watermark, out)
    assert operator is not None
    with kernels(on=turns[-1]):
        operator.on_watermark(TIME_MAX, out)
    return [str(row) for row in out.rows]


def _carried(config: AggregateConfig, operator: Operator) -> Operator:
    (other,) = restored(config, [operator.snapshot()], 1)
    return other


def test_tables_without_room_pass_their_groups_on(monkeypatch: pytest.MonkeyPatch) -> None:
    config = AggregateConfig("step", ("t",), Sliding(10, 3), (("n", "count(*)"), ("s", "sum(x)")), INPUT)
    data = batches(1, 20)
    expected = played(config, [True], data)
    monkeypatch.setattr(state, "TABLES_BYTES_MAX", 1)
    assert played(config, [True], data) == expected


@pytest.mark.parametrize("window", WINDOWS)
def test_tables_that_are_full_go_on(monkeypatch: pytest.MonkeyPatch, window: Window | None) -> None:
    config = AggregateConfig("step", ("t",), window, (("s", "sum(x)"), ("dev", "stddev(x)")), INPUT)
    data = batches(1, 20)
    expected = played(config, [True], data)
    # a block with floats fits into an empty table only
    monkeypatch.setattr(compiled, "GroupTable", partial(GroupTable, limb_bytes_max=1))
    assert played(config, [True], data) == expected


@pytest.mark.parametrize("window", [Tumbling(10), Sliding(10, 5), Cumulate(12, 4)])
@pytest.mark.parametrize("keys", [("k",), ("k", "t"), ()])
def test_windows_without_rows_between_windows_with_rows(window: Window, keys: tuple[str, ...]) -> None:
    """A batch has rows before and after a gap, and each window of the gap is over at a watermark of its own."""
    config = AggregateConfig("step", keys, window, (("n", "count(*)"), ("s", "sum(l)")), INPUT)
    columns = {item.name: column(random.Random(1), polars_type(item.type), 2, spread=6) for item in INPUT}
    batch = pl.DataFrame({**columns, "l": [1, 2], TS: [2, 28]}, schema_overrides={TS: pl.Int64()})
    made = []
    for on in (True, False):
        operator, out = config.open(), Collected()
        with kernels(on=on):
            operator.on_batch(batch, out)
            for watermark in range(50):
                operator.on_watermark(watermark, out)
        made.append([str(row) for row in out.rows])
    assert made[0] == made[1]
    assert made[0]
