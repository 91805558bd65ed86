"""State out of given values: the operator goes on from it as from its own; what is wrong is said by step and column."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pytest

from headrace.core.batch import TS, WM
from headrace.core.errors import UserError
from headrace.core.signals import TIME_MIN
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.given import GivenState
from headrace.operators.window.assigner import Cumulate, Sliding, Tumbling, Window
from headrace.state.snapshot import Chunk
from support.collector import Collected

INPUT = schema_of(
    {"shop": "string", "size": "float64", "amount": "int64", "price": "float64", "cost": "decimal(10,2)", "day": "date"}
)
AGGREGATES = (
    ("n", "count(*)"), ("total", "sum(amount)"), ("mean", "avg(price)"), ("worst", "max(price)"), ("least", "min(day)"),
    ("cost", "sum(cost)"), ("some", "count(amount) filter (where amount > 5)"), ("each", "sum(price) / count(*)"),
)  # fmt: skip
Row = tuple[str | None, float, int | None, float | None, Decimal | None, int]


def config(
    window: Window | None, aggregates: Sequence[tuple[str, str]] = AGGREGATES, lateness: int = 0
) -> AggregateConfig:
    return AggregateConfig("step", ("shop", "size"), window, tuple(aggregates), INPUT, lateness)


def batch(rows: Sequence[Row]) -> pl.DataFrame:
    frame = pl.DataFrame(
        [(*row[:5], datetime(2024, 1, 1 + row[5] % 20, tzinfo=UTC).date()) for row in rows],
        schema=INPUT.polars(),
        orient="row",
    )
    return frame.with_columns(pl.Series(TS, [row[5] * 250 for row in rows], dtype=pl.Int64)).with_columns(
        pl.lit(TIME_MIN).alias(WM)
    )


def values(frame: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """What a user computes, with polars in place of Spark, of rows with the columns of `by`."""
    return frame.group_by(by).agg(
        n=pl.len().cast(pl.Int64),
        total=pl.when(pl.col("amount").count() > 0).then(pl.col("amount").sum()),
        **{
            "total.count": pl.col("amount").count().cast(pl.Int64),
            "mean.sum": pl.when(pl.col("price").count() > 0).then(pl.col("price").sum()),
            "mean.count": pl.col("price").count().cast(pl.Int64),
            "cost.count": pl.col("cost").count().cast(pl.Int64),
        },
        worst=pl.col("price").max(),
        least=pl.col("day").min(),
        cost=pl.when(pl.col("cost").count() > 0).then(pl.col("cost").sum()),
        some=(pl.col("amount") > 5).sum().cast(pl.Int64),
    )


def latest(frame: pl.DataFrame) -> pl.DataFrame:
    """The greatest event time of each key, as a timestamp."""
    return frame.group_by("shop", "size").agg((pl.col(TS).max() * 1000).cast(pl.Datetime("us", "UTC")))


def windowed(frame: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Each row once for each of its windows (of cumulate: for its single step)."""
    assigner = window.assigner()
    bounds = []
    for at in frame.get_column(TS).to_list():
        pane = int(assigner.panes(frame.get_column(TS).to_numpy()[:1] * 0 + at)[0])
        grows = isinstance(window, Cumulate)
        bounds.append([(pane, assigner.pane_end(pane))] if grows else list(assigner.windows(pane)))
    stamp = pl.Datetime("us", "UTC")
    spread = frame.with_columns(pl.Series("__w", bounds, dtype=pl.List(pl.List(pl.Int64)))).explode("__w")
    return spread.with_columns(
        (pl.col("__w").list.get(0) * 1000).cast(stamp).alias("window_start"),
        (pl.col("__w").list.get(1) * 1000).cast(stamp).alias("window_end"),
    )


def drawn(draw: random.Random) -> list[Row]:
    """Up to 30 rows of few keys and times, with NULLs, both zeros and NaN among them."""
    return [
        (
            draw.choice(["a", "b", None]),
            draw.choice([0.0, -0.0, 1.5, float("nan")]),
            draw.choice([None, draw.randrange(-(2**40), 2**40), draw.randrange(10)]),
            draw.choice([None, draw.randrange(-1000, 1000) / 8]),
            draw.choice([None, Decimal(draw.randrange(-999, 999)).scaleb(-2)]),
            draw.randrange(30),
        )
        for _ in range(draw.randrange(1, 30))
    ]


WINDOWS = (None, Tumbling(2000), Sliding(2000, 500), Sliding(1500, 1000), Cumulate(2000, 500))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: "running" if window is None else window.cut())
def test_going_on_from_values_is_going_on(seed: int, window: Window | None) -> None:
    draw = random.Random(seed)
    before, after = drawn(draw), drawn(draw)
    made = config(window)
    straight, out = made.open(), Collected()
    straight.on_batch(batch(before), Collected())
    given = GivenState(made)
    keys = ["shop", "size"]
    frame = batch(before).with_columns(pl.col("size") + 0.0)
    rows = (
        values(frame, keys).join(latest(frame), on=keys, nulls_equal=True)
        if window is None
        else values(windowed(frame, window), [*keys, "window_start", "window_end"])
    )
    main = given.main(given.fitted(rows))
    snapshots = given.snapshot([Chunk(0, main)], TIME_MIN)
    other, other_out = made.open(), Collected()
    other.restore({state.name: [chunk.frame for chunk in state.chunks] for state in snapshots})
    for operator, collected in ((straight, out), (other, other_out)):
        operator.on_batch(batch(after), collected)
        operator.on_watermark(10**9, collected)
    assert other_out.frame.sort(pl.all()).equals(out.frame.sort(pl.all()))


def test_the_columns_are_named_for_people() -> None:
    given = GivenState(config(Tumbling(1000)))
    assert [(column.name, str(column.type), column.required) for column in given.columns] == [
        ("shop", "string", True),
        ("size", "float64", True),
        ("window_start", "timestamp", True),
        ("window_end", "timestamp", True),
        ("n", "int64", True),
        ("total", "decimal(38,0)", True),
        ("worst", "float64", True),
        ("least", "date", True),
        ("cost", "decimal(38,2)", True),
        ("some", "int64", True),
        ("total.count", "int64", False),
        ("mean.sum", "float64", True),
        ("mean.count", "int64", True),
        ("cost.count", "int64", False),
    ]
    assert [column.meaning for column in given.columns[4:7]] == ["count of rows", "sum of amount", "max of price"]


def test_equal_needs_share_a_column() -> None:
    shared = (
        ("mean", "avg(amount)"), ("total", "sum(amount)"), ("n", "count(amount)"), ("both", "sum(price) + sum(size)"),
    )  # fmt: skip
    names = [column.name for column in GivenState(config(None, shared)).columns]
    assert names == ["shop", "size", "total", "n", "both.sum", "both.count", "both.sum2", "both.count2", TS]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("count(distinct amount)", "distinct values of a key are a set"),
        ("first(amount)", "place in the order"),
        ("last(amount) + 1", "place in the order"),
        ("stddev(price)", "sums of squares"),
    ],
)
def test_what_no_value_stands_for_is_refused(text: str, reason: str) -> None:
    with pytest.raises(
        UserError, match=f"step step: the state of 'x' .* cannot be given as a value: .*{reason}(.|\n)*replay"
    ):
        GivenState(config(None, [("x", text)]))


ONE = {"shop": ["a"], "size": [1.0], "n": [3]}
COUNTED = (("n", "count(*)"),)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"shop": ["a"], "size": [1.0]}, r"step step: column 'n' \(count of rows\) is missing"),
        ({**ONE, "m": [1]}, "step step: it takes no column 'm'"),
        ({**ONE, "n": ["3"]}, r"column 'n' \(count of rows\) is int64, and String was given"),
        ({**ONE, "n": [None]}, r"column 'n' \(count of rows\) holds NULL"),
        ({**ONE, "n": [-1]}, "column 'n' .* is negative"),
        ({"shop": ["a", "a"], "size": [0.0, -0.0], "n": [1, 2]}, "shop a, size 0.0 is there more than once"),
    ],
)
def test_wrong_rows_are_named(columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        GivenState(config(None, COUNTED)).fitted(pl.DataFrame(columns))


def test_sums_and_their_counts_agree() -> None:
    given = GivenState(config(None, [("mean", "avg(price)")]))
    rows = pl.DataFrame({"shop": ["a"], "size": [1.0], "mean.sum": [1.0], "mean.count": [0]})
    with pytest.raises(UserError, match=r"'mean\.sum' is NULL where 'mean\.count' is 0, and only there"):
        given.fitted(rows)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@pytest.mark.parametrize("bounds", [(0, 2000), (500, 1500), (0, 500)])
def test_what_is_no_window_is_refused(bounds: tuple[int, int]) -> None:
    rows = pl.DataFrame({**ONE, "window_start": [at(bounds[0])], "window_end": [at(bounds[1])]})
    with pytest.raises(UserError, match="is no window of tumbling 1000"):
        GivenState(config(Tumbling(1000), COUNTED)).fitted(rows)


def test_windows_that_fired_do_not_fire_again() -> None:
    made = config(Tumbling(1000), COUNTED, lateness=2000)
    given = GivenState(made)
    rows = pl.DataFrame(
        {
            "shop": ["a", "a"],
            "size": [1.0, 1.0],
            "n": [3, 4],
            "window_start": [at(0), at(1000)],
            "window_end": [at(1000), at(2000)],
        }
    )
    operator, out = made.open(), Collected()
    snapshots = given.snapshot([Chunk(0, given.main(given.fitted(rows)))], 1500)
    operator.restore({state.name: [chunk.frame for chunk in state.chunks] for state in snapshots})
    operator.on_watermark(1600, out)
    assert not out.rows, "the first has fired before"
    late = batch([("a", 1.0, 1, 1.0, None, 1)]).with_columns(pl.lit(1500, pl.Int64).alias(WM))
    operator.on_batch(late, out)
    assert [(row["window_end"], row["n"]) for row in out.rows] == [(at(1000), 4)], "a late row corrects it"
    operator.on_watermark(2000, out)
    assert [(row["window_end"], row["n"]) for row in out.rows[1:]] == [(at(2000), 4)]


def test_a_step_without_keys_has_one_row() -> None:
    made = AggregateConfig("step", (), None, (("n", "count(*)"), ("worst", "max(price)")), INPUT)
    given = GivenState(made)
    rows = pl.DataFrame({"n": [3], "worst": [2.5]})
    with pytest.raises(UserError, match="it has no key, so one row, and 2 were given"):
        given.fitted(pl.concat([rows, rows]))
    operator, out = made.open(), Collected()
    snapshots = given.snapshot([Chunk(0, given.main(given.fitted(rows)))], TIME_MIN)
    operator.restore({state.name: [chunk.frame for chunk in state.chunks] for state in snapshots})
    operator.on_batch(batch([("a", 1.0, 1, 9.0, None, 1)]), out)
    assert [(row["n"], row["worst"]) for row in out.rows] == [(4, 9.0)]
    assert given.main(given.fitted(rows.clear())).height == 0
