"""State columns: the name of a column determines how partial values of a group are merged, so a merge does not need
the aggregate calls.

    __sum.<id>.e<k>   whole numbers of units of 2^k; a sum's value is the total over its columns
    __sum.<id>.<n>    counts (`rows`, and `nan`, `pinf`, `ninf`: values without a whole number)
    __min.<id>  __max.<id>  __nanmax.<id>
    __first.<id>.<i>  __last.<id>.<i>   a value (i = `v`) and its position in the order of rows (i = 0, 1, ..)

Frames of one state may have different columns: an absent column contributes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from headrace.operators.aggregates import position

_CARRY_ABOVE = 1 << 44
"""A limb (`limbs`) whose absolute value exceeds this is carried: all but its 32 low bits are added to the next limb.
Then int64 cannot overflow, because a batch adds at most 2^51, and a merge reads few batches."""
SUM, MIN, MAX, NANMAX = "__sum.", "__min.", "__max.", "__nanmax."
ROWS = "rows"


def merge_expression(name: str) -> pl.Expr | None:
    """The aggregation that merges values of the state column `name`; None for columns that are not merged on their
    own."""
    column = pl.col(name)
    if name.startswith(SUM):
        return column.sum()
    if name.startswith(MIN):
        return column.min()
    if name.startswith(MAX):
        return column.max()
    if name.startswith(NANMAX):
        return column.nan_max()
    return None


def group(frame: pl.DataFrame, by: Sequence[str], expressions: Iterable[pl.Expr]) -> pl.DataFrame:
    """Groups by columns, or into one row without columns."""
    if by:
        return frame.group_by(by).agg(*expressions)
    return frame.select(*expressions)


def concat(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All rows of frames whose columns may differ."""
    if len(frames) == 1:
        return frames[0]
    first = frames[0].columns
    alike = all(frame.columns == first for frame in frames)
    return pl.concat(frames, how="vertical" if alike else "diagonal", rechunk=False)


def merge(frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    """Merges partial frames, in any order, to one row per group; at least one frame."""
    frame = concat(frames)
    places = position.positioned_in(frame.columns)
    if places:
        frame, orders = position.rank(frame, places)
    plain = [made for name in frame.columns if (made := merge_expression(name)) is not None]
    merged = group(frame, by, [*plain, *(place.pick() for place in places)])
    if places:
        merged = position.gather(merged, frame, places, orders)
    return carried(merged)


def carried(frame: pl.DataFrame) -> pl.DataFrame:
    """The same sums with limbs of at most `_CARRY_ABOVE`, so that any number of rows can be added to them."""
    limbs = {name: series for name in _limbs(frame) if _large(series := frame.get_column(name))}
    if not limbs:
        return frame
    made: dict[str, pl.Series] = {}
    waiting = sorted(limbs, key=_unit, reverse=True)
    while waiting:
        name = waiting.pop()
        numbers = made.get(name, limbs.get(name))
        assert numbers is not None, "only columns that are there carry"
        whole = numbers.to_numpy()
        # round to nearest, so that the rest lies in [-2^31, 2^31) and its column stays near 0
        carry = (whole + (1 << 31)) >> 32
        above = f"{name.rpartition('.')[0]}.e{_unit(name) + 32}"
        before = made.get(above, frame.get_column(above) if above in frame.columns else None)
        made[name] = pl.Series(name, whole - (carry << 32))
        made[above] = pl.Series(above, carry if before is None else before.to_numpy() + carry)
        # the carry may make the next limb too large
        if _large(made[above]) and above not in waiting:
            waiting = sorted([*waiting, above], key=_unit, reverse=True)
    return frame.with_columns(made.values())


def _limbs(frame: pl.DataFrame) -> list[str]:
    """The int64 columns of units: those of floats (whole numbers have 128 bits)."""
    return [
        name
        for name, dtype in frame.schema.items()
        if dtype == pl.Int64 and name.startswith(SUM) and name.rpartition(".")[2].startswith("e")
    ]


def _unit(name: str) -> int:
    return int(name.rpartition(".e")[2])


def _large(numbers: pl.Series) -> bool:
    least, greatest = numbers.min(), numbers.max()
    if not isinstance(least, int) or not isinstance(greatest, int):
        return False  # no rows
    return least < -_CARRY_ABOVE or greatest > _CARRY_ABOVE
