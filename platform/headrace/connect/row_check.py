"""Checks rows before they are staged: can they be written once they are decided?

An engine that decides first and publishes afterwards (`connect.publisher`) cannot take a decision back. A row that the
format or the sink then rejects would block the decided job forever. So formats and sinks report beforehand, from
columns and without I/O, the errors they would raise for a row.

    rows ─> the format's check, the sink's check ─> staged ─> decision ─> encoded, published

Limits known only to the external system (a table's constraints, the brokers' limits) are not checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.errors import DataError
from headrace.core.types import DataType, ListOf, Schema, Struct

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Encode: TypeAlias = "Callable[[pl.DataFrame], pa.Array]"
"""Encodes rows with all visible columns of a sink to its messages, one per row."""


_SHOWN_MAX = 200


class RowCheck(Protocol):
    """Checks rows; used by one thread."""

    def require(self, rows: pl.DataFrame) -> None:
        """Raises DataError for the first row that cannot be written: node, column, remedy.

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

    node: str
    columns: tuple[str, ...]
    refuses: Callable[[pl.Series], bool]
    why: str
    remedy: str

    def require(self, rows: pl.DataFrame) -> None:
        """See RowCheck."""
        for name in self.columns:
            column = rows.get_column(name)
            if self._refused(column):
                # the batch has at least one such value: only now search row by row
                index = next(at for at in range(len(column)) if self._refused(column[at : at + 1]))
                raise refused_row(self.node, f"column {name} {self.why}", rows[index], self.remedy)

    def _refused(self, column: pl.Series) -> bool:
        return any(self.refuses(leaf) for leaf in leaves(column))


@dataclass(frozen=True, slots=True)
class EncodeCheck:
    """Encodes rows and discards the messages: for formats that do not report what they reject. Raises the encoder's
    errors."""

    encode: Encode
    columns: tuple[str, ...]

    def require(self, rows: pl.DataFrame) -> None:
        """See RowCheck."""
        self.encode(rows.select(self.columns))


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
    """Columns whose type is of a kind, or contains such a type."""
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
