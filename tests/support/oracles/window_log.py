"""Logs of one partition for windowed and running aggregates: rows in batches with their watermarks, drawn at random;
and what operators make of them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import datetime

import polars as pl

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, TS, WM
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.operator import OnError, Operator
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from headrace.state.redistribute import share
from headrace.state.snapshot import StateKind
from support.oracles.aggregates import AGGREGATES, bits
from support.oracles.collector import Collected
from support.oracles.restoring import MAX_PARALLELISM

INPUT = schema_of({"key": "string", "x": "float64", "i": "int64", "s": "string"})
HOUR = 3_600_000
BERLIN = "Europe/Berlin"
SPRING = 1_364_630_400_000  # 2013-03-30 08:00 UTC: the clocks go forward 17 hours later
WINDOWS: list[Window] = [
    Tumbling(10 * HOUR),
    Sliding(10 * HOUR, 5 * HOUR),
    Sliding(10 * HOUR, 3 * HOUR),
    Cumulate(12 * HOUR, 4 * HOUR),
    Tumbling(24 * HOUR, timezone=BERLIN),
    Sliding(12 * HOUR, 6 * HOUR, timezone=BERLIN),
    Cumulate(24 * HOUR, 8 * HOUR, timezone=BERLIN),
]
INTS = [None, 1, 2, 2**61]
FLOATS = [None, 0.0, -0.0, 0.1, 1e16, -1e16, 1e-9, math.nan, math.inf, 3e200]
Event = pl.DataFrame | int
"""A batch, or a watermark."""


def log(rng: random.Random, rows: int, step: int) -> list[Event]:
    """Batches of one partition with its watermarks, and watermarks that no row contradicts."""
    spread, latest, events = rng.choice([0, 8, 30]) * HOUR, TIME_MIN // 2, list[Event]()
    offset = 0
    while offset < rows:
        made = []
        for _ in range(rng.randint(1, step)):
            ts = SPRING + offset * HOUR // 2 - rng.randint(0, 2 * spread)
            latest = max(latest, ts)
            made.append((rng.choice(["a", "b", "c", "d", "", None]), rng.choice(FLOATS), rng.choice(INTS),
                         rng.choice(["p", "q", None]), ts, latest - spread - 1, offset))  # fmt: skip
            offset += 1
        columns = dict(zip(("key", "x", "i", "s", TS, WM, O_MINOR), zip(*made, strict=True), strict=True))
        frame = pl.DataFrame(columns, schema={**INPUT.polars(), TS: pl.Int64(), WM: pl.Int64(), O_MINOR: pl.Int64()})
        order = {O_NODE: pl.lit("src"), O_TEXT: pl.lit("t"), O_MAJOR: pl.lit(0, pl.Int64), O_INDEX: pl.lit(0, pl.Int64)}
        frame = frame.with_columns(**order)
        on_time = bool((frame.get_column(WM) < frame.get_column(TS)).all())
        events.append(frame.drop(WM) if on_time and rng.random() < 0.5 else frame)
        if rng.random() < 0.5:
            events.append(latest - spread - 1 - rng.choice([0, 0, HOUR]))
    return [*events, TIME_MAX]


def play(config: AggregateConfig, operators: Sequence[Operator], events: Sequence[Event]) -> list[Collected]:
    outs = [Collected() for _ in operators]
    for event in events:
        for number, (operator, out) in enumerate(zip(operators, outs, strict=True)):
            if isinstance(event, int):
                operator.on_watermark(event, out)
                continue
            mine = share(event, StateKind.KEYED, config.keys, number, len(operators), MAX_PARALLELISM)
            if mine.height:
                operator.on_batch(mine, out)
    return outs


def value(found: object) -> object:
    return found.timestamp() if isinstance(found, datetime) else bits(found)


def rows(outs: Sequence[Collected]) -> list[tuple[object, ...]]:
    return [tuple(map(value, row.values())) for out in outs for row in out.rows]


def side_rows(outs: Sequence[Collected], output: str) -> list[str]:
    """Rows of a side output as text, sorted. By the names of their columns: where a hidden column stands, and whether a
    row has it at all or one that says nothing, comes from the rows that it was given out with."""
    found = ({WM: TIME_MIN, **row} for out in outs for row in out.side(output))
    return sorted(repr(sorted((name, value(cell)) for name, cell in row.items() if cell is not None)) for row in found)


def step(names: Sequence[str], window: Window | None = WINDOWS[0], *, keyed: bool = True) -> AggregateConfig:
    aggregates = tuple((name, AGGREGATES[name][0]) for name in names)
    return AggregateConfig("step", ("key",) if keyed else (), window, aggregates, INPUT, on_error=OnError.DIVERT)
