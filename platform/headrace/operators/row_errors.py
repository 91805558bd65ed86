"""The `on_error` policy for rows that fail in a step: fail the job, skip the row, or divert it.

Owns the policy, the texts that describe a bad row, and the `bad` side output. Operators detect bad rows, and call this
module only for batches that have some. So Python objects per row are acceptable here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import assert_never

import polars as pl

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, OP, hidden_columns, visible_columns
from headrace.core.errors import DataError
from headrace.core.reporting import reported
from headrace.expr.compiled import CompiledScalar
from headrace.operators.operator import BAD, REASON, Collector, OnError

_VALUE_CHARS_MAX = 80
_ROW_CHARS_MAX = 1_000
_PLAIN_CAST = re.compile(r'cast\(\s*("[^"]+"|[\w.]+)\s+as\s+\w+\s*(\([\d\s,]+\))?\s*\)', re.IGNORECASE)

_UNSHOWN = "(a value that cannot be shown)"

BadRows = Mapping[int, str]
"""Row number within the batch to the reason why the row is bad."""


class RowErrors:
    """Applies a node's `on_error` to rows that failed."""

    def __init__(self, node: str, policy: OnError) -> None:
        self._node = node
        self._policy = policy

    def reject(
        self, batch: pl.DataFrame, bad: BadRows, out: Collector, *, cause: BaseException | None = None
    ) -> pl.Series:
        """Applies the policy to the bad rows of an input batch, of which there must be at least one. Returns the mask
        of its good rows.

        With `on_error: fail`, raises DataError with the first bad row, its reason and its source position.
        """
        assert bad, "only batches with bad rows are dealt with"
        match self._policy:
            case OnError.FAIL:
                raise self._data_error(batch, bad) from cause
            case OnError.DIVERT:
                out.emit_side(BAD, _diverted(batch, bad))
            case OnError.SKIP:
                pass
            case _:
                assert_never(self._policy)
        out.count(BAD, len(bad))
        return ~pl.int_range(batch.height, eager=True).is_in(list(bad))

    def _data_error(self, batch: pl.DataFrame, bad: BadRows) -> DataError:
        first = min(bad)
        row = plain_values(batch[first : first + 1])
        place = reported("position of a bad row", None, _position, row)
        values = {name: row[name] for name in visible_columns(batch)}
        return DataError(
            f"step {self._node!r} failed{f' at {place}' if place else ''}: {bad[first]}\n"
            f"  row: {_shortened(shown_row(values), _ROW_CHARS_MAX)}",
            remedy=f"keep such rows out with a filter or try_cast, or set `on_error: skip | divert` on {self._node!r}",
            place=place or None,
            node=self._node,
        )


def failed_rows(batch: pl.DataFrame, failures: Sequence[tuple[CompiledScalar, pl.Series]]) -> dict[int, str]:
    """The rows marked by masks of failing expressions (True: failed), each with its first reason.

    Deletes of an updating edge are never bad: only their key has values.
    """
    bad: dict[int, str] = {}
    deletes = batch.get_column(OP) if OP in batch.columns else None
    for expression, failed in failures:
        numbers = (failed if deletes is None else failed & ~deletes).arg_true()
        if numbers.is_empty():
            continue
        names = [name for name in visible_columns(batch) if name in expression.columns]
        rows = _inputs(batch[names][numbers]) if names else [{}] * len(numbers)
        for number, row in zip(numbers, rows, strict=True):
            text = expression.text
            bad.setdefault(number, reported("reason of a bad row", f"{text}: no result", _reason, text, row))
    return bad


def _inputs(rows: pl.DataFrame) -> Sequence[Mapping[str, object]]:
    found = reported("inputs of bad rows", None, rows.rows, named=True)
    return [plain_values(row) for row in rows.iter_slices(1)] if found is None else found


def plain_values(row: pl.DataFrame) -> dict[str, object]:
    """The values of a frame of one row as Python's. One that Python has no form for is shown as a text."""
    return {column.name: reported("value of a bad row", _UNSHOWN, _plain_value, column) for column in row}


def _plain_value(column: pl.Series) -> object:
    (value,) = column.to_list()  # `item` returns a list as a Series, whose text has several lines
    return value


def shown_row(values: Mapping[str, object]) -> str:
    """`origin='EWR', delay=NULL`: values as text, long ones truncated."""
    return ", ".join(f"{name}={_shown(value)}" for name, value in values.items())


def _reason(text: str, inputs: Mapping[str, object]) -> str:
    if len(inputs) == 1 and _PLAIN_CAST.fullmatch(text.strip()):
        (value,) = inputs.values()
        return f"{text}: cannot convert {_shown(value)}"
    return f"{text}: no result for {shown_row(inputs)}" if inputs else f"{text}: no result"


def _diverted(batch: pl.DataFrame, bad: BadRows) -> pl.DataFrame:
    """Input columns, `reason` (replaces an input column with that name), hidden columns."""
    numbers = sorted(bad)
    rows = batch[pl.Series(numbers, dtype=pl.UInt32)]
    hidden = [
        name for name in hidden_columns(rows) if name != OP
    ]  # the side output is an append edge: a bad row is never a delete
    reasons = pl.Series(REASON, [bad[number] for number in numbers], dtype=pl.String)
    visible = [name for name in visible_columns(rows) if name != REASON]
    return rows.with_columns(reasons).select(*visible, REASON, *hidden)


def _position(row: Mapping[str, object]) -> str | None:
    """A row's source position, from its order columns; None if the batch has none."""
    if row.get(O_NODE) is None:
        return None
    node, text, major, minor = (row[name] for name in (O_NODE, O_TEXT, O_MAJOR, O_MINOR))
    if isinstance(text, str) and text.startswith(("[", "{")):
        return f"the row of {node!r} with key {text}, window start {_time_text(major)}"
    place = f", place {row[O_INDEX]} among the rows made from it" if row.get(O_INDEX) else ""
    return f"{text or node}[{major}] offset {minor}{place}"


def _time_text(epoch_ms: object) -> str:
    if not isinstance(epoch_ms, int):
        return "none"
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"


def _shown(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat()
        case str() | bytes():
            return _shortened(repr(value[: _VALUE_CHARS_MAX + 1]), _VALUE_CHARS_MAX)
        case list() | dict():
            return _shortened(repr(value), _VALUE_CHARS_MAX)
        case _:
            return str(value)


def _shortened(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 2] + ".."
