"""State out of given values: the operator goes on from it as from its own; what is wrong is said by step and column."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pytest
from pydantic import TypeAdapter

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, TS, WM
from headrace.core.errors import UserError
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.step_definition import StepDefinition
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.bootstrap.state import GivenState
from headrace.operators.operator import Operator
from headrace.operators.window.assigner import windows_of
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from headrace.state.snapshot import Chunk
from support.oracles.collector import Collected

INPUT = schema_of(
    {"shop": "string", "size": "float64", "amount": "int64", "price": "float64", "cost": "decimal(10,2)", "day": "date"}
)
AGGREGATES: tuple[tuple[str, str], ...] = (
    ("n", "count(*)"), ("total", "sum(amount)"), ("mean", "avg(price)"), ("worst", "max(price)"), ("least", "min(day)"),
    ("cost", "sum(cost)"), ("some", "count(amount) filter (where amount > 5)"), ("each", "sum(price) / count(*)"),
    ("dear", "bool_and(price > -100)"),
)  # fmt: skip
DEEP = (
    ("kinds", "count(distinct amount)"), ("tops", "sum(distinct price) filter (where size > 1)"),
    ("opening", "first(amount)"), ("closing", "last(price)"), ("spread", "var(price)"),
    ("wide", "stddev_pop(amount)"), ("costs", "var_pop(cost)"), ("cheap", "arg_min(amount, price)"),
    ("dear", "arg_max(day, price) filter (where amount > 5)"), ("mid", "quantile_cont(amount, 0.3)"),
)  # fmt: skip
Row = tuple[str | None, float, int | None, float | None, Decimal | None, int]


def config(
    window: Window | None, aggregates: Sequence[tuple[str, str]] = AGGREGATES, lateness: int = 0
) -> AggregateConfig:
    return AggregateConfig("step", ("shop", "size"), window, tuple(aggregates), INPUT, lateness)


def batch(rows: Sequence[Row], offset: int = 0) -> pl.DataFrame:
    """Rows of two sources with two partitions each; offsets from `offset` on."""
    frame = pl.DataFrame(
        [(*row[:5], datetime(2024, 1, 1 + row[5] % 20, tzinfo=UTC).date()) for row in rows],
        schema=INPUT.polars(),
        orient="row",
    )
    number = pl.int_range(pl.len()).hash(7) % 4
    return frame.with_columns(pl.Series(TS, [row[5] * 250 for row in rows], dtype=pl.Int64)).with_columns(
        pl.lit(TIME_MIN).alias(WM),
        pl.when(number < 2).then(pl.lit("orders")).otherwise(pl.lit("returns")).alias(O_NODE),
        pl.lit("topic").alias(O_TEXT),
        (number % 2).cast(pl.Int64).alias(O_MAJOR),
        (offset + pl.int_range(pl.len())).alias(O_MINOR),
        pl.lit(0, pl.Int64).alias(O_INDEX),
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
        dear=(pl.col("price") > -100).min(),
    )


def deep_values(frame: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """The same for DEEP: sets, rows with their places, sums of squares."""
    amount, price, cost = (pl.col(name) for name in ("amount", "price", "cost"))
    whole = pl.Decimal(38, 0)

    def spread(name: str, value: pl.Expr, kind: pl.DataType, squares: pl.DataType) -> dict[str, pl.Expr]:
        some = value.count() > 0
        return {
            f"{name}.sum": pl.when(some).then(value.sum()).cast(kind),
            f"{name}.count": value.count().cast(pl.Int64),
            f"{name}.squares": pl.when(some).then((value * value).sum()).cast(squares),
        }

    place = {"ts": (pl.col(TS) * 1000).cast(pl.Datetime("us", "UTC")), "source": pl.col(O_NODE)}
    place |= {"topic": pl.col(O_TEXT), "partition": pl.col(O_MAJOR), "offset": pl.col(O_MINOR)}
    order = [pl.col(name) for name in (TS, O_NODE, O_TEXT, O_MAJOR, O_MINOR)]

    def row(name: str, value: pl.Expr, pick: Callable[[pl.Expr], pl.Expr]) -> dict[str, pl.Expr]:
        chosen = {name: value, **{f"{name}.{part}": made for part, made in place.items()}}
        there = value.is_not_null()
        return {
            part: pick(made.filter(there).sort_by([key.filter(there) for key in order]))
            for part, made in chosen.items()
        }

    def extreme(name: str, value: pl.Expr, by: pl.Expr, *, greatest: bool) -> dict[str, pl.Expr]:
        chosen = {name: value, f"{name}.by": by, **{f"{name}.{part}": made for part, made in place.items()}}
        there = value.is_not_null() & by.is_not_null()
        keys, descending = [key.filter(there) for key in (by, *order)], [greatest, *(False for _ in order)]
        return {part: made.filter(there).sort_by(keys, descending=descending).first() for part, made in chosen.items()}

    return (
        frame.group_by(by)
        .agg(
            **extreme("cheap", amount, price, greatest=False),
            **extreme("dear", pl.when(amount > 5).then(pl.col("day")), price, greatest=True),
            **{"mid.values": amount, "kinds.values": amount, "tops.values": price.filter(pl.col("size") > 1).unique()},
            **row("opening", amount, lambda rows: rows.first()),
            **row("closing", price, lambda rows: rows.last()),
            **spread("spread", price, pl.Float64(), pl.Float64()),
            **spread("wide", amount.cast(pl.Int128), whole, whole),
            **spread("costs", (cost * 100).cast(pl.Int128), pl.Decimal(38, 2), pl.Decimal(38, 4)),
        )
        .with_columns(pl.col("costs.sum") / 100, pl.col("costs.squares") / 10000)
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
        bounds.append([(pane, assigner.pane_end(pane))] if grows else list(windows_of(assigner, pane)))
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


def restore(operator: Operator, given: GivenState, rows: pl.DataFrame, watermark: int = TIME_MIN) -> None:
    """Begins with the state of fitted rows."""
    snapshots = given.snapshot([[Chunk(0, part)] for part in given.parts(rows)], watermark)
    operator.restore({state.name: [chunk.frame for chunk in state.chunks] for state in snapshots})


@pytest.mark.parametrize("aggregates", [AGGREGATES, DEEP], ids=["values", "deep"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: "running" if window is None else window.definition())
def test_going_on_from_values_is_going_on(
    seed: int, window: Window | None, aggregates: Sequence[tuple[str, str]]
) -> None:
    draw = random.Random(seed)
    before, after = drawn(draw), drawn(draw)
    made = config(window, aggregates)
    computed = values if aggregates is AGGREGATES else deep_values
    straight, out = made.open(), Collected()
    straight.on_batch(batch(before), Collected())
    given = GivenState(made)
    keys = ["shop", "size"]
    frame = batch(before).with_columns(pl.col("size") + 0.0)
    rows = (
        computed(frame, keys).join(latest(frame), on=keys, nulls_equal=True)
        if window is None
        else computed(windowed(frame, window), [*keys, "window_start", "window_end"])
    )
    other, other_out = made.open(), Collected()
    restore(other, given, given.fitted(rows))
    for operator, collected in ((straight, out), (other, other_out)):
        operator.on_batch(batch(after, 100), collected)
        operator.on_watermark(10**9, collected)
    assert other_out.frame.sort(pl.all()).equals(out.frame.sort(pl.all()))


@pytest.mark.parametrize("aggregates", [AGGREGATES, DEEP], ids=["values", "deep"])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: "running" if window is None else window.definition())
def test_a_definition_reads_state_as_the_rows_of_the_step(
    window: Window | None, aggregates: Sequence[tuple[str, str]]
) -> None:
    made, rows = config(window, aggregates), drawn(random.Random(1))
    operator, out = made.open(), Collected()
    operator.on_batch(batch(rows[: len(rows) // 2]), out)
    operator.on_batch(batch(rows[len(rows) // 2 :], 100), out)
    snapshots = operator.snapshot()
    operator.on_watermark(TIME_MAX, out)
    names = made.output().names
    key = [*made.keys, *(name for name in names if name.startswith("window_"))]
    expected = out.frame.select(names).unique(key, keep="last", maintain_order=True)

    stored = TypeAdapter(StepDefinition)
    definition = stored.validate_json(stored.dump_json(made.definition()))
    step, found = AggregateConfig.defined("step", definition), Collected()
    step.emit_state({state.name: [chunk.frame for chunk in state.chunks] for state in snapshots}, found)

    assert step.output() == made.output()
    assert found.frame.select(names).sort(key).equals(expected.sort(key))


def test_a_definition_has_the_columns_that_are_read() -> None:
    aggregates = (("some", "count(amount) filter (where price > 5)"),)
    definition = replace(config(None, aggregates), keys=("shop",)).definition()
    assert definition.input == {"shop": "string", "amount": "int64", "price": "float64"}


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
        ("dear", "bool", True),
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


def test_the_columns_of_what_no_single_value_says() -> None:
    made = (
        ("kinds", "count(distinct amount)"), ("all", "sum(distinct amount)"), ("opening", "first(price)"),
        ("doubled", "2 * last(amount) filter (where size > 0)"), ("spread", "var(amount)"), ("rough", "stddev(price)"),
    )  # fmt: skip
    columns = {column.name: column for column in GivenState(config(Tumbling(1000), made)).columns}
    place = [("ts", True), ("source", False), ("topic", False), ("partition", False), ("offset", False)]
    assert [(name, column.required) for name, column in list(columns.items())[4:]] == [
        ("opening", True),
        *((f"opening.{name}", required) for name, required in [*place, ("index", False)]),
        ("kinds.values", True),
        ("doubled.last", True),
        *((f"doubled.last.{name}", required) for name, required in [*place, ("index", False)]),
        ("spread.sum", True),
        ("spread.count", True),
        ("spread.squares", False),
        ("spread.m2", False),
        ("rough.sum", True),
        ("rough.count", True),
        ("rough.squares", False),
        ("rough.m2", False),
    ]
    assert str(columns["kinds.values"].type) == "[int64]"
    assert [str(columns[f"spread.{name}"].type) for name in ("squares", "m2")] == ["decimal(38,0)", "float64"]
    assert columns["doubled.last"].meaning == "last of amount where size > 0"
    assert columns["rough.m2"].meaning == "sum of squared deviations from the mean of price; or squares"


def test_by_arrival_there_is_no_place() -> None:
    made = replace(config(None, [("opening", "first(amount)"), ("closing", "last(amount)")]), order="arrival")
    given = GivenState(made)
    assert [column.name for column in given.columns] == ["shop", "size", "opening", "closing", TS]
    rows = given.fitted(pl.DataFrame({"shop": ["a"], "size": [1.0], "opening": [7], "closing": [8]}))
    operator, out = made.open(), Collected()
    restore(operator, given, rows)
    operator.on_batch(batch([("a", 1.0, 1, 1.0, None, 1)]), out)
    assert [(row["opening"], row["closing"]) for row in out.rows] == [(7, 1)]


def spread_rows(**columns: object) -> pl.DataFrame:
    return pl.DataFrame(
        {"shop": ["a"], "size": [1.0], **{name.replace("_", "."): [it] for name, it in columns.items()}}
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, r"either 'x\.squares' or 'x\.m2' has to be there, not both"),
        ({"x_squares": 1.0, "x_m2": 1.0}, r"either 'x\.squares' or 'x\.m2' has to be there, not both"),
        ({"x_squares": 2.9}, r"no values have shop a, size 1\.0, x\.count 3, x\.sum 3\.0, x\.squares 2\.9"),
        ({"x_squares": None}, r"no values have .* x\.squares None"),
        ({"x_m2": -0.5}, r"no values have .* x\.m2 -0\.5(.|\n)*deviations not below 0"),
        ({"x_m2": float("inf")}, r"no values have .* x\.m2 inf"),
    ],
)
def test_spreads_that_no_values_have_are_refused(columns: dict[str, object], message: str) -> None:
    given = GivenState(config(None, [("x", "var(price)")]))
    with pytest.raises(UserError, match=message):
        given.parts(given.fitted(spread_rows(x_sum=3.0, x_count=3, **columns)))


def test_a_sum_of_squares_that_was_rounded_is_put_right() -> None:
    tenths = [0.1] * 3
    made = config(None, [("x", "stddev(price)")])
    for name, value in (("x_squares", sum(value * value for value in tenths)), ("x_m2", 0.0)):
        given = GivenState(made)
        operator, out = made.open(), Collected()
        rows = spread_rows(x_sum=sum(tenths), x_count=3, **{name: value})
        restore(operator, given, given.fitted(rows))
        operator.on_batch(batch([("a", 1.0, None, 0.1, None, 1)]), out)
        assert 0 <= out.rows[0]["x"] < 1e-16  # type: ignore[operator]


PLACE = {
    "x_ts": datetime(1970, 1, 1, tzinfo=UTC),
    "x_source": "orders",
    "x_topic": "t",
    "x_partition": 0,
    "x_offset": 3,
}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({**PLACE, "x_ts": None}, "x 7, x.ts None: one is NULL and the other is not"),
        ({**PLACE, "x_topic": None}, "x.topic None, .*: a row's place is given whole, or not at all"),
        ({"x_ts": PLACE["x_ts"], "x_index": 1}, "x.index 1, .*: a row's place is given whole, or not at all"),
    ],
)
def test_places_are_whole(columns: dict[str, object], message: str) -> None:
    given = GivenState(config(None, [("x", "first(amount)")]))
    with pytest.raises(UserError, match=message):
        given.fitted(spread_rows(x=7, **columns))


def test_an_extreme_has_the_value_that_it_is_taken_by() -> None:
    given = GivenState(config(None, [("x", "arg_min(amount, price)")]))
    with pytest.raises(UserError, match=r"x 7, x.by None: one is NULL and the other is not"):
        given.fitted(spread_rows(x=7, x_by=None, **PLACE))


def test_a_place_lies_in_its_window() -> None:
    given = GivenState(config(Tumbling(1000), [("x", "first(amount)")]))
    rows = spread_rows(x=7, **{**PLACE, "x_ts": at(1000)}).with_columns(window_start=at(0), window_end=at(1000))
    with pytest.raises(UserError, match=r"x\.ts 1970-01-01 00:00:01.*: the time is not in the window"):
        given.fitted(rows)


@pytest.mark.parametrize(("text", "expected"), [("first(amount)", 7), ("last(amount)", 1)])
def test_a_row_without_a_place_came_before_others_of_its_time(text: str, expected: int) -> None:
    made = config(None, [("x", text)])
    given = GivenState(made)
    operator, out = made.open(), Collected()
    restore(operator, given, given.fitted(spread_rows(x=7, x_ts=at(250))))
    operator.on_batch(batch([("a", 1.0, 1, None, None, 1)]), out)
    assert out.rows[0]["x"] == expected


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


@pytest.mark.parametrize(
    ("column", "dtype", "value"),
    [
        ("least", pl.Date(), 2_932_897),
        ("least", pl.Date(), -719_163),
        (TS, pl.Datetime("us", "UTC"), 253_402_300_800_000_000),
        # in microseconds it has no place in 64 bits
        (TS, pl.Datetime("ms", "UTC"), 1 << 62),
    ],
)
def test_times_that_no_row_has_are_refused(column: str, dtype: pl.DataType, value: int) -> None:
    given = GivenState(config(None, [("least", "min(day)")]))
    columns = {"least": pl.Series([0, 0], dtype=pl.Int32).cast(pl.Date), column: pl.Series([0, value]).cast(dtype)}
    rows = pl.DataFrame({"shop": ["a", "b"], "size": [1.0, 2.0], **columns})
    given.fitted(rows.head(1))
    message = (
        rf"step step: column '{column}' .* is a time outside of the years 1 to 9999, in the row with shop b, size 2"
    )
    with pytest.raises(UserError, match=message):
        given.fitted(rows)


def test_a_key_that_is_no_time_is_named_by_the_rest_of_its_row() -> None:
    made = AggregateConfig("step", ("day", "shop"), None, COUNTED, INPUT)
    rows = pl.DataFrame({"day": pl.Series([3_000_000], dtype=pl.Int32).cast(pl.Date), "shop": ["a"], "n": [3]})
    with pytest.raises(UserError, match=r"column 'day' \(key\) is a time outside .*, in the row with shop a\n"):
        GivenState(made).fitted(rows)


def test_a_window_that_is_no_time_is_refused() -> None:
    ends = pl.Series([at(1000)]).cast(pl.Datetime("us", "UTC"))
    bounds = {"window_start": pl.Series([1 << 62]).cast(pl.Datetime("us", "UTC")), "window_end": ends}
    with pytest.raises(UserError, match=r"'window_start' .* is a time outside"):
        GivenState(config(Tumbling(1000), COUNTED)).fitted(pl.DataFrame({**ONE, **bounds}))


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
    restore(operator, given, given.fitted(rows), 1500)
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
    restore(operator, given, given.fitted(rows))
    operator.on_batch(batch([("a", 1.0, 1, 9.0, None, 1)]), out)
    assert [(row["n"], row["worst"]) for row in out.rows] == [(4, 9.0)]
    assert given.parts(given.fitted(rows.clear()))[0].height == 0
