"""Random frames and groupings for the group-by kernel, and the groups that polars and exact numbers make of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random

import polars as pl

from headrace.kernels.arrow_columns import Form as ValueForm
from headrace.kernels.arrow_columns import value_form
from headrace.kernels.group.group_by import LIMB_BITS, Action, Aggregate, Grouping, KeyColumn

Cell = object
Group = tuple[Cell, ...]

_TEXTS = ("", "a", "ab", "twelve bytes", "thirteen byte", "thirteen bytf", "a text that is longer " * 3, "\0", "é" * 9)
_FLOATS = (0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.7976931348623157e308, -1e308, 0.1)
_INT64 = (0, 1, -1, 2**63 - 1, -(2**63), 2**31, -(2**31) - 1)
KEY_TYPES: tuple[pl.DataType, ...] = (
    pl.Int64(),
    pl.Int32(),
    pl.String(),
    pl.Binary(),
    pl.Date(),
    pl.Datetime("us", "UTC"),
    pl.Decimal(20, 2),
)
VALUE_TYPES: tuple[pl.DataType, ...] = (
    *(pl.Int64(), pl.Int32(), pl.Float64(), pl.Float32(), pl.Date(), pl.Datetime("us", "UTC")),
    *(pl.Decimal(18, 3), pl.Int128(), pl.String(), pl.Boolean()),
)
_FLOAT_FORMS = (ValueForm.FLOAT32, ValueForm.FLOAT64)


def column(random: Random, dtype: pl.DataType, rows: int, *, spread: int) -> pl.Series:
    """Values of a type: of about `spread` different ones, some of them NULL, or none."""
    nulls = random.choice([0.0, 0.0, 0.2, 1.0])
    values = [_value(random, dtype) for _ in range(spread)]
    drawn = [None if random.random() < nulls else random.choice(values) for _ in range(rows)]
    if dtype.is_temporal():
        small = pl.Series("", drawn, pl.Int64).cast(pl.Int32 if dtype == pl.Date else pl.Int64)
        return small.cast(dtype)
    if isinstance(dtype, pl.Decimal):
        return pl.Series("", drawn, pl.Int64).cast(dtype)
    return pl.Series("", drawn, dtype, strict=False)


def _value(random: Random, dtype: pl.DataType) -> Cell:
    if dtype == pl.Boolean:
        return random.random() < 0.5
    if dtype in (pl.String, pl.Binary):
        text = random.choice([*_TEXTS, str(random.randint(0, 10 ** random.randint(1, 15)))])
        return text if dtype == pl.String else text.encode()
    if dtype.is_float():
        return random.choice([random.choice(_FLOATS), random.gauss(0, 10 ** random.randint(-20, 20)), random.random()])
    if dtype in (pl.Int32, pl.Date):
        return random.choice([0, 7, -7, random.randint(-(2**31), 2**31 - 1) if dtype == pl.Int32 else 20_000])
    if dtype == pl.Int64:
        return random.choice([*_INT64, random.randint(-(2**63), 2**63 - 1), random.randint(0, 50)])
    limit = 10 ** min(14, dtype.precision - dtype.scale - 1) if isinstance(dtype, pl.Decimal) else 10**14
    return random.randint(-limit, limit)


def aggregates_of(random: Random, values: Mapping[str, pl.DataType]) -> tuple[Aggregate, ...]:
    """Some of the aggregates that there are of these columns."""
    made: list[Aggregate] = []
    for name, dtype in values.items():
        form = value_form(dtype)
        actions = [Action.COUNT]
        if form is not ValueForm.ANY:
            actions += [Action.MIN, Action.MAX]
        if form in _FLOAT_FORMS:
            actions += [Action.LIMBS, Action.SQUARES]
        elif dtype.is_integer() or dtype.is_decimal():
            actions.append(Action.SUM)
            actions += [Action.SUM_WIDE] if form is ValueForm.INT64 else []
        made += [Aggregate(action, f"{action.name}_{name}", name, dtype) for action in actions]
    random.shuffle(made)
    return tuple(made[: random.randint(0, len(made))])


def random_frame(random: Random, rows: int) -> tuple[pl.DataFrame, Grouping]:
    """Rows with a grouping of them."""
    spread = random.choice([1, 3, 40, max(1, rows)])
    keys = {f"k{n}": random.choice(KEY_TYPES) for n in range(random.choice([0, 1, 1, 1, 2, 2, 4]))}
    values = {f"v{n}": random.choice(VALUE_TYPES) for n in range(random.randint(0, 3))}
    columns = {name: column(random, dtype, rows, spread=spread) for name, dtype in (keys | values).items()}
    frame = pl.DataFrame({"__ts": pl.Series([random.randint(0, 60) for _ in range(rows)], dtype=pl.Int64), **columns})
    # a frame without columns has no rows: without keys, rows are counted
    rows_counted = (Aggregate(Action.COUNT_ROWS, "all"),) if not keys or random.random() < 0.5 else ()
    aggregates = (*rows_counted, *aggregates_of(random, values))
    grouping = Grouping(tuple(KeyColumn(*item) for item in keys.items()), aggregates)
    return frame, grouping


def in_pieces(random: Random, frame: pl.DataFrame) -> list[pl.DataFrame]:
    """The same rows as several frames: slices, and frames of several chunks."""
    pieces: list[pl.DataFrame] = []
    at = 0
    while at < frame.height:
        size = random.choice([1, 3, 255, 256, 257, frame.height])
        pieces.append(frame.slice(at, size))
        at += size
    if random.random() < 0.5 and len(pieces) > 1:
        middle = len(pieces) // 2
        pieces[:middle] = [pl.concat(pieces[:middle], rechunk=False)]
    return pieces


def expected_groups(frame: pl.DataFrame, grouping: Grouping) -> dict[Group, Group]:
    """Key -> the value of each aggregate, as `plain` has them."""
    keys = [key.name for key in grouping.keys]
    inside: dict[Group, list[int]] = {}
    for row, key in enumerate(frame.select(keys).rows() if keys else [()] * frame.height):
        inside.setdefault(key, []).append(row)
    return {
        key: tuple(
            _aggregate(item, None if item.column is None else frame[item.column][rows], len(rows))
            for item in grouping.aggregates
        )
        for key, rows in inside.items()
    }


def _aggregate(item: Aggregate, values: pl.Series | None, rows: int) -> Cell:
    if values is None:
        return rows
    if item.action is Action.COUNT:
        return values.count()
    if item.action in (Action.LIMBS, Action.SQUARES):
        return _exact(values.drop_nulls().cast(pl.Float64).to_list(), item.action)
    if item.action in (Action.SUM, Action.SUM_WIDE):
        total = sum(values.to_physical().cast(pl.Int128).drop_nulls().to_list())
        if item.action is Action.SUM and item.dtype == pl.Int64:
            return (total + 2**63) % 2**64 - 2**63  # wraps around
        return total
    least = item.action is Action.MIN
    if values.dtype.is_float():
        return plain(values.min() if least else values.nan_max())
    return plain(values.min() if least else values.max())


def _exact(values: Iterable[float], action: Action) -> tuple[Fraction, int, int, int]:
    """The exact sum of the finite values, and the numbers of NaN, +inf and -inf."""
    total, others = Fraction(0), [0, 0, 0]
    for value in values:
        if math.isfinite(value):
            total += Fraction(value) ** (2 if action is Action.SQUARES else 1)
        else:
            others[0 if math.isnan(value) else 1 if value > 0 else 2] += 1
    return (total, *others)  # type: ignore[return-value]


def plain(value: Cell) -> Cell:
    """A value that is equal to another one only if their bits are: zeros and NaN in normal form."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value + 0.0).hex()
    return value


def found_groups(frames: Sequence[pl.DataFrame], grouping: Grouping) -> dict[Group, Group]:
    """The groups of frames that a table made, in the same form. A key occurs once."""
    found: dict[Group, Group] = {}
    keys = [key.name for key in grouping.keys]
    for frame in frames:
        for item in grouping.keys:
            assert frame.schema[item.name] == item.dtype
        names = frame.select(keys).rows() if keys else [()] * frame.height
        columns = [_found(frame, item) for item in grouping.aggregates]
        for row, key in enumerate(names):
            assert key not in found, key
            found[key] = tuple(values[row] for values in columns)
    return found


def _found(frame: pl.DataFrame, item: Aggregate) -> list[Cell]:
    if item.action not in (Action.LIMBS, Action.SQUARES):
        values = frame[item.name]
        if item.action in (Action.SUM, Action.SUM_WIDE):
            values = values.to_physical()
        if values.dtype.is_float():
            assert not any(value == 0 and math.copysign(1, value) < 0 for value in values.drop_nulls().to_list())
        return [plain(value) for value in values.to_list()]
    totals = [Fraction(0)] * frame.height
    for name in frame.columns:
        if name.startswith(f"{item.name}.e"):
            unit = int(name.rpartition(".e")[2])
            assert unit % LIMB_BITS == 0
            totals = [total + limb * Fraction(2) ** unit for total, limb in zip(totals, frame[name], strict=True)]
    others = [
        frame[f"{item.name}.{name}"].to_list() if f"{item.name}.{name}" in frame.columns else [0] * frame.height
        for name in ("nan", "pinf", "ninf")
    ]
    return list(zip(totals, *others, strict=True))
