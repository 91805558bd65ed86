"""Decodes CSV lines: plain lines as columns; lines with quotes, and all doubtful ones, one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoded
from headrace.core.types import Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp, polars_type
from headrace.formats.csv.line import Dialect, MalformedLineError, ValueReader
from headrace.formats.messages import Indices, assemble, live_messages, take
from headrace.formats.staging import staged_frame
from headrace.formats.text_columns import Mask, parse_dates, parse_timestamps
from headrace.formats.text_values import FLOAT32_LIMIT, INT64_MAX, MICROSECONDS

SMALL_ROWS_MAX = 64
"""Default of `small_rows_max`: from about this size on, decoding by column outweighs its fixed cost."""


class CsvDecoder:
    """Decodes lines of one schema. The result does not depend on the batches.

    `columns`: the names of a line's fields. Batches of up to `small_rows_max` lines are decoded one by one.
    """

    def __init__(
        self, schema: Schema, dialect: Dialect, columns: Sequence[str], *, small_rows_max: int = SMALL_ROWS_MAX
    ) -> None:
        self._schema = schema
        self._dialect = dialect
        self._columns = tuple(columns)
        self._reader = ValueReader(schema, dialect, columns)
        self._small_rows_max = small_rows_max

    def decode(self, values: pa.Array) -> Decoded:
        """See `Decoder`."""
        live, index = live_messages(values)
        size = len(live)
        frame, doubtful = self._schema.empty(), np.ones(size, dtype=np.bool_)
        if size > self._small_rows_max:
            frame, doubtful = self._read_plain(live)
        unsure = np.flatnonzero(doubtful)
        rows, read, bad = self._read_lines(live, unsure)
        good = None
        if len(unsure):
            sure = np.flatnonzero(~doubtful)
            both = np.concatenate([sure, read])
            order = np.argsort(both, kind="stable")
            frame, good = pl.concat([frame, rows])[order], both[order]
        return assemble(len(values), index, frame, good if bad else None, bad)

    def _read_lines(self, live: pa.Array, index: Indices) -> tuple[pl.DataFrame, Indices, dict[int, str]]:
        """Decodes the messages at `index` one by one: the good rows, their places, and the bad ones."""
        rows, places, bad = [], [], {}
        for place, raw in zip(index.tolist(), take(live, index).to_pylist(), strict=True):
            try:
                rows.append(self._reader.read(raw))
                places.append(place)
            except MalformedLineError as malformed:
                bad[place] = str(malformed)
        return staged_frame(self._schema, rows), np.array(places, dtype=np.int64), bad

    def _read_plain(self, live: pa.Array) -> tuple[pl.DataFrame, Mask]:
        """Rows of the lines that the column path decodes with certainty, and a mask of all others."""
        texts, doubtful = _texts(live)
        texts = texts.str.strip_suffix("\n").str.strip_suffix("\r")
        dialect = self._dialect
        doubtful |= texts.str.contains(f"[\r\n{_in_class(dialect.quote)}]").to_numpy()
        delimiters = texts.str.count_matches(dialect.delimiter, literal=True)
        doubtful |= (delimiters != len(self._columns) - 1).to_numpy()
        fields = texts.str.split_exact(dialect.delimiter, len(self._columns) - 1).struct.unnest()
        fields.columns = list(self._columns)
        columns = []
        for item in self._schema:
            if item.name not in self._columns:
                columns.append(pl.Series(item.name, [None] * len(texts), dtype=polars_type(item.type)))
                continue
            field = fields[item.name]
            present = field.set(field == dialect.null, None)
            column = _parse(present, item)
            doubtful |= (present.is_not_null() & column.is_null()).to_numpy()
            if not item.nullable:
                doubtful |= column.is_null().to_numpy()
            columns.append(column)
        return pl.DataFrame(columns).filter(pl.Series(~doubtful)), doubtful


def _texts(live: pa.Array) -> tuple[pl.Series, Mask]:
    """Messages as strings, and the mask of those that are not UTF-8 (empty here)."""
    raw = pl.Series(pl.from_arrow(live))
    try:
        return raw.cast(pl.String), np.zeros(len(live), dtype=np.bool_)
    except pl.exceptions.ComputeError:
        decoded = [_decoded(item) for item in live.to_pylist()]
    wrong = np.array([item is None for item in decoded], dtype=np.bool_)
    return pl.Series(decoded, dtype=pl.String).fill_null(""), wrong


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _in_class(character: str) -> str:
    """The character, escaped for a bracket expression of a regular expression."""
    return f"\\x{ord(character):02x}"


def _parse(texts: pl.Series, item: Field) -> pl.Series:
    """Texts as a column of the field's type; NULL where the conversion is not certain."""
    final = polars_type(item.type)
    match item.type:
        case Primitive.STRING:
            return texts
        case Primitive.INT32 | Primitive.INT64:
            return texts.cast(final, strict=False)
        case Primitive.FLOAT32 | Primitive.FLOAT64:
            numbers = texts.cast(pl.Float64, strict=False)
            limit = FLOAT32_LIMIT if item.type is Primitive.FLOAT32 else float("inf")
            return numbers.set(numbers.abs() >= limit, None).cast(final)
        case Primitive.BOOL:
            return (texts == "true").set((texts != "true") & (texts != "false"), None)
        case Primitive.BINARY:
            return texts.str.decode("base64", strict=False)
        case Primitive.DATE:
            days, understood = parse_dates(texts)
            return _where(texts.name, days, understood).cast(pl.Int32).cast(final)
        case Timestamp(unit):
            return _timestamps(texts, unit).cast(final)
        case Decimal(precision, scale):
            # only plain digits within the scale: polars accepts other forms, and rounds
            digits = r"^-?(?:0|[1-9][0-9]{0,37})" + (rf"(?:\.[0-9]{{1,{scale}}})?$" if scale else "$")
            plain = texts.set(~texts.str.contains(digits), None)
            return plain.cast(pl.Decimal(precision, scale), strict=False)
        case ListOf() | Struct():
            raise AssertionError("nested columns are refused before anything runs")


def _where(name: str, values: np.ndarray, understood: Mask) -> pl.Series:
    column = pl.Series(name, values)
    return column if understood.all() else column.set(pl.Series(~understood), None)


def _timestamps(texts: pl.Series, unit: str) -> pl.Series:
    """Epoch microseconds of RFC 3339 texts and of integers in `unit`."""
    micros, understood = parse_timestamps(texts)
    column = _where(texts.name, micros, understood)
    if column.null_count() == texts.null_count():
        return column
    factor = MICROSECONDS[unit]
    whole = texts.cast(pl.Int64, strict=False)
    # polars wraps products silently
    whole = whole.set((whole > INT64_MAX // factor) | (whole < -(INT64_MAX // factor)), None)
    return column.zip_with(column.is_not_null(), whole * factor)
