"""Rows that a format or a sink cannot write: each is found before it is written, with its reason.

An engine that decides first and publishes afterwards (`connect.publisher`) cannot take a decision back. A row that the
format or the sink then rejects would block the decided job forever. So formats and sinks report beforehand, from
columns and without I/O, the rows that they would reject.

    rows ─> the format's check, the sink's check ─> staged ─> decision ─> encoded, published

Limits known only to the external system (a table's constraints, the brokers' limits) are not checked here. Writers that
learn of them refuse rows as well: `SinkContext.refuse`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from headrace.core.errors import DataError
from headrace.core.types import DataType, ListOf, Schema, Struct

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Encode: TypeAlias = "Callable[[pl.DataFrame], pa.Array]"
"""Encodes rows with all visible columns of a sink to its messages, one per row."""


_SHOWN_MAX = 200
_Failure = TypeVar("_Failure")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row cannot be written, and what to do about such rows."""

    why: str
    remedy: str


Refused = Mapping[int, Refusal]
"""Number of a row within its frame -> why it cannot be written."""
Refuse: TypeAlias = "Callable[[pl.DataFrame, Refused], None]"
"""Receives rows that a sink leaves out: a frame, and the refused ones of its rows."""


class RowCheck(Protocol):
    """Checks rows; used by one thread."""

    def refused(self, rows: pl.DataFrame) -> Refused:
        """Returns every row that cannot be written.

        `rows`: visible columns, and the hidden `__ts` and `__op`, as `connect.sink.SinkBatch` has them.
        """
        ...


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """Rejects values, including those inside lists and structs.

    columns   the columns that may hold such values
    refuses   whether a column of plain values contains one
    why       the reason: `... is a day that JSON has no form for`
    """

    columns: tuple[str, ...]
    refuses: Callable[[pl.Series], bool]
    why: str
    remedy: str

    def refused(self, rows: pl.DataFrame) -> Refused:
        """See RowCheck."""
        return first_of(self._refused_in(name, rows.get_column(name)) for name in self.columns)

    def _refused_in(self, name: str, column: pl.Series) -> Refused:
        refusal = Refusal(f"column {name} {self.why}", self.remedy)

        def tried(begin: int, length: int) -> Refusal | None:
            return refusal if any(self.refuses(leaf) for leaf in leaves(column.slice(begin, length))) else None

        return failing_rows(len(column), tried)


@dataclass(frozen=True, slots=True)
class EncodeCheck:
    """Encodes rows and discards the messages: for formats that do not report what they reject."""

    encode: Encode
    columns: tuple[str, ...]

    def refused(self, rows: pl.DataFrame) -> Refused:
        """See RowCheck."""
        visible = rows.select(self.columns)

        def tried(begin: int, length: int) -> Refusal | None:
            try:
                self.encode(visible.slice(begin, length))
            except DataError as error:
                return Refusal(error.message, error.remedy or "filter such rows out before the sink")
            return None

        return failing_rows(rows.height, tried)


def failing_rows(count: int, tried: Callable[[int, int], _Failure | None]) -> dict[int, _Failure]:
    """Every row that fails alone, found by halves, in order.

    tried   (first row, number of rows) -> how they fail together, None: they do not. It is called again for both
            halves of rows that fail, the first half first; no row is tried again after it was part of a success
    """
    failures: dict[int, _Failure] = {}
    waiting = [(0, count)] if count else []
    while waiting:
        begin, length = waiting.pop()
        failure = tried(begin, length)
        if failure is None:
            continue
        if length == 1:
            failures[begin] = failure
            continue
        half = length // 2
        waiting += [(begin + half, length - half), (begin, half)]
    return failures


def first_of(several: Iterable[Refused]) -> Refused:
    """All refused rows, each with the first refusal that it has."""
    refusals: dict[int, Refusal] = {}
    for refused in several:
        refusals |= {row: refusal for row, refusal in refused.items() if row not in refusals}
    return refusals


def raise_refused(node: str, rows: pl.DataFrame, refused: Refused, *, also: str = "") -> None:
    """Raises DataError for the first refused row, if there is one: node, reason, row, remedy. also: another remedy."""
    if refused:
        first = min(refused)
        remedy = "; ".join(each for each in (refused[first].remedy, also) if each)
        raise refused_row(node, refused[first].why, rows[first], remedy)


def refused_row(node: str, what: str, row: pl.DataFrame, remedy: str) -> DataError:
    """The error for a sink's row that cannot be written. row: a frame of that row alone.

    The message hides hidden columns, truncates long values, and shows times beyond Python's range as numbers.
    """
    shown = {column.name: _shown(column) for column in row if not column.name.startswith("__")}
    return DataError(f"sink {node!r}: {what}: {shown}", remedy=remedy, node=node)


def _shown(column: pl.Series) -> object:
    from headrace.core.time_range import outside_years

    # Python has no such times: they are shown as numbers
    value = (column if outside_years(column) is None else column.to_physical()).to_list()[0]
    text = value if isinstance(value, str) else repr(value)
    return f"{text[:_SHOWN_MAX]} .. ({len(text):,} characters)" if len(text) > _SHOWN_MAX else value


def columns_holding(schema: Schema, kind: Callable[[DataType], bool]) -> tuple[str, ...]:
    """Columns whose type is of a kind, or contains one."""
    return tuple(field.name for field in schema if _holds(field.type, kind))


def _holds(dtype: DataType, kind: Callable[[DataType], bool]) -> bool:
    match dtype:
        case ListOf(inner):
            return _holds(inner, kind)
        case Struct(fields):
            return any(_holds(field.type, kind) for field in fields)
        case _:
            return kind(dtype)


def leaves(column: pl.Series) -> Iterator[pl.Series]:
    """The plain values in a column, column by column."""
    import polars as pl

    dtype = column.dtype
    if isinstance(dtype, pl.List):
        yield from leaves(column.explode())
    elif isinstance(dtype, pl.Struct):
        for field in dtype.fields:
            yield from leaves(column.struct.field(field.name))
    else:
        yield column
