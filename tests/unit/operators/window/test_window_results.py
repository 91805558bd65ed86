"""Window results against the oracle: any batches, interleaving, watermarks and parallelism give the same bits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, TS, WM
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.types import Schema, schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.operator import LATE, Operator
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from support.oracles.aggregates import AGGREGATES, Row, Span, aggregate, bits
from support.oracles.collector import Collected

ROUGH = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308]
FLOATS = st.one_of(
    st.sampled_from([*ROUGH, 0.1, -0.1, 1e16, 1.0, 2.0**-540, 3e200]), st.floats(-1e6, 1e6), st.floats(allow_nan=False)
)
TAME = st.one_of(st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, -1e15, 1e15, 1e-15]), st.floats(-1e6, 1e6))
KEYS: dict[str, st.SearchStrategy[object]] = {
    "string": st.sampled_from(["a", "a", "a", "b", None, "", "ab"]),
    "int64": st.sampled_from([1, 1, 1, 2, None, -(2**63)]),
    "float64": st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, None]),
}
WINDOWS: list[Window] = [
    Tumbling(10),
    Tumbling(7, 3),
    Sliding(10, 5),
    Sliding(10, 3),
    Sliding(9, 4, -2),
    Sliding(6, 6),
    Cumulate(12, 3),
    Cumulate(12, 4, 5),
]


def spans_of(window: Window) -> Callable[[int], list[Span]]:
    """The windows of a moment, by trying them all."""

    def spans(ts: int) -> list[Span]:
        size, offset = window.size_ms, window.offset_ms
        every = window.size_ms if isinstance(window, Tumbling) else window.every_ms
        if isinstance(window, Cumulate):
            start = ts - (ts - offset) % size
            return [(start, end) for end in range(start + every, start + size + 1, every) if end > ts]
        return [(start, start + size) for start in range(ts - size + 1, ts + 1) if (start - offset) % every == 0]

    return spans


@st.composite
def logs(draw: st.DrawFn, key: st.SearchStrategy[object], floats: st.SearchStrategy[float]) -> list[list[Row]]:
    """Rows of up to three partitions, each with the watermarks of its own order."""
    out_of_orderness = draw(st.integers(0, 6))
    partitions = []
    for number in range(draw(st.integers(1, 3))):
        drawn = draw(
            st.lists(
                st.tuples(
                    key,
                    st.none() | floats,
                    st.none() | st.integers(-5, 5) | st.integers(-(2**61), 2**61),
                    st.sampled_from(["p", "q", "r", None]),
                    st.integers(-40, 60),
                ),
                max_size=18,
            )
        )
        latest, rows = TIME_MIN // 2, []
        for offset, (group, x, i, s, ts) in enumerate(drawn):
            latest = max(latest, ts)
            rows.append(Row(group, x, i, s, ts, latest - out_of_orderness - 1, number, offset))
        partitions.append(rows)
    return partitions


def frame(rows: Sequence[Row], schema: Schema) -> pl.DataFrame:
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    hidden = {
        TS: [row.ts for row in rows],
        WM: [row.wm for row in rows],
        O_NODE: ["src"] * len(rows),
        O_TEXT: ["topic"] * len(rows),
        O_MAJOR: [row.partition for row in rows],
        O_MINOR: [row.offset for row in rows],
        O_INDEX: [0] * len(rows),
    }
    types = dict.fromkeys(hidden, pl.Int64()) | {O_NODE: pl.String(), O_TEXT: pl.String()}
    made = pl.DataFrame({**columns, **hidden}, schema={**schema.polars(), **types}, strict=False)
    return made.drop(WM) if all(row.wm < row.ts for row in rows) else made


def interleaved(partitions: list[list[Row]], rng: random.Random) -> list[Row]:
    order = [number for number, rows in enumerate(partitions) for _ in rows]
    rng.shuffle(order)
    left = [iter(rows) for rows in partitions]
    return [next(left[number]) for number in order]


def run(
    operators: Sequence[Operator], rows: list[Row], schema: Schema, rng: random.Random, *, rows_max: int
) -> list[Collected]:
    """Feeds rows in random batches to the operators, split by key, with watermarks that no row to come contradicts."""
    outs = [Collected() for _ in operators]
    position, emitted = 0, TIME_MIN
    while position < len(rows):
        batch = rows[position : position + rng.randint(1, rows_max)]
        position += len(batch)
        highest = min((row.wm for row in rows[position:]), default=TIME_MAX - 1)
        for number, (operator, out) in enumerate(zip(operators, outs, strict=True)):
            mine = [row for row in batch if hash(bits(row.key if row.key != 0 else 0.0)) % len(operators) == number]
            if mine:
                operator.on_batch(frame(mine, schema), out)
        if rng.random() < 0.7:
            emitted = max(emitted, rng.choice([highest, highest - rng.randint(0, 9), emitted]))
            for operator, out in zip(operators, outs, strict=True):
                operator.on_watermark(emitted, out)
    for operator, out in zip(operators, outs, strict=True):
        assert operator.on_watermark(TIME_MAX, out) == TIME_MAX
        operator.close()
    return outs


def results(outs: Sequence[Collected], names: Sequence[str], *, keyed: bool) -> list[tuple[object, ...]]:
    found = []
    for out in outs:
        for row in out.rows:
            start, end = (round(row[name].timestamp() * 1000) for name in ("window_start", "window_end"))  # type: ignore[attr-defined]
            assert row[TS] == end - 1
            found.append((bits(row["key"] if keyed else None), start, end, *(bits(row[name]) for name in names)))
    return found


def config(window: Window, names: Sequence[str], schema: Schema, *, keyed: bool, allowed: int = 0) -> AggregateConfig:
    aggregates = tuple((name, AGGREGATES[name][0]) for name in names)
    return AggregateConfig("step", ("key",) if keyed else (), window, aggregates, schema, allowed)


def schema_for(key: str) -> Schema:
    return schema_of({"key": key, "x": "float64", "i": "int64", "s": "string"})


def check(
    window: Window, partitions: list[list[Row]], kind: str, names: list[str], seed: int, *, keyed: bool = True
) -> None:
    rng = random.Random(seed)
    rows = interleaved(partitions, rng)
    schema = schema_for(kind)
    aggregated = config(window, names, schema, keyed=keyed)
    operators = [aggregated.open() for _ in range(rng.choice([1, 2, 3]) if keyed else 1)]
    outs = run(operators, rows, schema, rng, rows_max=rng.choice([1, 4, 100]))
    if not keyed:
        rows = [Row(None, row.x, row.i, row.s, row.ts, row.wm, row.partition, row.offset) for row in rows]
    expected = aggregate(rows, spans_of(window), names)
    found = results(outs, names, keyed=keyed)
    assert len(set(found)) == len(found), "append: every window and key once"
    assert set(found) == expected.results
    late = [(row[O_MAJOR], row[O_MINOR]) for out in outs for row in out.side(LATE)]
    assert sorted(late) == sorted(expected.late)
    assert sum(out.counters["late"] for out in outs) == len(expected.late)
    assert sum(out.counters["partly_late"] for out in outs) == expected.partly


@given(st.data(), st.sampled_from(WINDOWS), st.sampled_from(list(KEYS)), st.integers(0, 2**32))
def test_windows_count_what_the_oracle_counts(data: st.DataObject, window: Window, kind: str, seed: int) -> None:
    partitions = data.draw(logs(KEYS[kind], TAME))
    check(window, partitions, kind, ["n", "n_x", "sum_x", "sum_i", "min_x", "max_x", "first_s", "dist_x"], seed)


@given(st.data(), st.sampled_from(list(AGGREGATES)), st.integers(0, 2**32), st.booleans())
def test_each_function_alone(data: st.DataObject, name: str, seed: int, keyed: bool) -> None:
    partitions = data.draw(logs(KEYS["string"], FLOATS))
    check(Sliding(10, 4), partitions, "string", [name], seed, keyed=keyed)


@given(logs(KEYS["string"], FLOATS), st.integers(0, 2**32))
def test_all_functions_together_on_rough_floats(partitions: list[list[Row]], seed: int) -> None:
    check(Tumbling(25), partitions, "string", list(AGGREGATES), seed)


@given(logs(KEYS["string"], TAME), st.sampled_from(WINDOWS), st.sampled_from([1, 5, 30]), st.integers(0, 2**32))
def test_allowed_lateness_ends_at_the_same_last_rows(
    partitions: list[list[Row]], window: Window, allowed: int, seed: int
) -> None:
    names = ["n", "sum_x", "dist_x", "last_x"]
    rng, schema = random.Random(seed), schema_for("string")
    rows = interleaved(partitions, rng)
    operators = [config(window, names, schema, keyed=True, allowed=allowed).open() for _ in range(rng.choice([1, 2]))]
    outs = run(operators, rows, schema, rng, rows_max=rng.choice([1, 4, 100]))
    last = {row[:3]: row for row in results(outs, names, keyed=True)}
    expected = aggregate(rows, spans_of(window), names, allowed)
    assert set(last.values()) == expected.results
    assert {(row[O_MAJOR], row[O_MINOR]) for out in outs for row in out.side(LATE)} == expected.late


@pytest.mark.parametrize("window", [Tumbling(10), Sliding(10, 4)])
def test_many_panes_and_many_frames_merge_to_the_same(window: Window) -> None:
    rng = random.Random(5)
    times = [number + rng.randint(0, 400) for number in range(700)]
    rows = [
        Row(rng.choice("abc"), rng.random(), rng.randint(0, 9), None, ts, max(times[: number + 1]) - 401, 0, number)
        for number, ts in enumerate(times)
    ]
    names, schema = ["n", "sum_x", "dist_i", "dev_x", "last_x"], schema_for("string")
    expected = aggregate(rows, spans_of(window), names).results
    for rows_max in (3, 40, 500):
        operator = config(window, names, schema, keyed=True).open()
        assert set(results(run([operator], rows, schema, rng, rows_max=rows_max), names, keyed=True)) == expected
