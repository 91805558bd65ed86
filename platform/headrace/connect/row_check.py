"""Rows looked at before they are staged: could they be written once they are decided?

An engine that decides first and publishes afterwards (`connect.publisher`) has no way back: a row that the format or
the sink then refuses would hold the decided job up for good. So formats and sinks say beforehand, from columns and
without I/O, what they would raise about a row.

    rows ─> the format's check, the sink's check ─> staged ─> decision ─> encoded, published

What only the outside can say (a table's constraints, the brokers' limits) is not known here.
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
"""Rows with all visible columns of a sink to its messages, one each."""


_SHOWN_MAX = 200
_DAY_US = 86_400 * 1_000_000
_YEAR_1, _YEAR_9999 = -719_162, 2_932_896
"""Their first and last day, since the epoch."""


class RowCheck(Protocol):
    """Looks at rows; used by one thread."""

    def require(self, rows: pl.DataFrame) -> None:
        """Raises DataError with the first row that could not be written: node, column, remedy.

        `rows`: visible columns, and the hidden `__ts` and `__op`, as `connect.sink.SinkBatch` has them.
        """
        ...


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """Refuses values, those inside of lists and structs too.

    columns   that may hold such values
    refuses   whether there is one in a column of plain values
    why       what is wrong with it: `... is a day that JSON has no form for`
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
                # one by one, now that there is one
                index = next(at for at in range(len(column)) if self._refused(column[at : at + 1]))
                raise refused_row(self.node, f"column {name} {self.why}", rows[index], self.remedy)

    def _refused(self, column: pl.Series) -> bool:
        return any(self.refuses(leaf) for leaf in leaves(column))


@dataclass(frozen=True, slots=True)
class EncodeCheck:
    """Encodes rows and throws the messages away: for formats that do not say what they refuse. Raises what they do."""

    encode: Encode
    columns: tuple[str, ...]

    def require(self, rows: pl.DataFrame) -> None:
        """See RowCheck."""
        self.encode(rows.select(self.columns))


def refused_row(node: str, what: str, row: pl.DataFrame, remedy: str) -> DataError:
    """The error about a row of a sink that could not be written. row: it alone; hidden columns are not shown, long
    values are cut, and times that Python does not know are shown as numbers."""
    shown = {column.name: _shown(column) for column in row if not column.name.startswith("__")}
    return DataError(f"sink {node!r}: {what}: {shown}", remedy=remedy, node=node)


def _shown(column: pl.Series) -> object:
    value = (column.to_physical() if any(map(_beyond_python, leaves(column))) else column).to_list()[0]
    text = value if isinstance(value, str) else repr(value)
    return f"{text[:_SHOWN_MAX]} .. ({len(text):,} characters)" if len(text) > _SHOWN_MAX else value


def _beyond_python(values: pl.Series) -> bool:
    """Whether there is a time in it that is not in the years 1 to 9999."""
    import polars as pl

    if values.dtype not in (pl.Date, pl.Datetime):
        return False
    numbers = values.to_physical() // (1 if values.dtype == pl.Date else _DAY_US)
    return bool((~numbers.is_between(_YEAR_1, _YEAR_9999)).any())


def columns_holding(schema: Schema, kind: Callable[[DataType], bool]) -> tuple[str, ...]:
    """Columns that are of a kind of type, or have such values inside."""
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
