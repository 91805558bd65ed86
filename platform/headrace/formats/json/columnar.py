"""Reads a whole batch of JSON messages into columns, and says which rows it cannot vouch for.

The fast reading. The library's NDJSON reader is exact for numbers, booleans and nesting, but turns a number, boolean,
list or object that stands where a string belongs into text. Three ways around it, by cost:

* text that no such value can look like is proven to be a string;
* a column in which many strings do look so is read as a category, which only a string can fill;
* the few that remain are doubtful: the caller reads them one by one.

Times, dates, base64 and decimals are read as strings and understood here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set as AbstractSet

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp, polars_type
from headrace.formats.json.decimals import read_decimals
from headrace.formats.messages import take
from headrace.formats.text_columns import Mask, parse_dates, parse_timestamps
from headrace.formats.text_values import FLOAT32_LIMIT, INT64_MAX, MICROSECONDS

_LOOKS_COERCED = r"^(?:-?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?$|[\[{]|true$|false$)"
_COERCED = re.compile(_LOOKS_COERCED.replace("$", r"\Z"))
_SURROGATE = r"\\u[dD][89abAB]"
_DOUBTFUL_MAX = 16
"""So many doubtful strings in one column of one batch make it worth reading the column as a category."""
_FORGIVEN_SHARE = 0.2
"""Doubtful rows cost ten times the others; beyond this share, parsing every message to find the bad ones is cheaper."""
_ROWS_FEW = 1024
"""Up to so many values Python's own loop is faster than starting the library's."""
_PLAIN = {Primitive.BOOL, Primitive.INT32, Primitive.INT64, Primitive.FLOAT64, Primitive.STRING}


class ColumnReader:
    """Reads batches of one schema; remembers, per column, how its strings and times are best read."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._categories: set[str] = {item.name for item in schema if item.type is Primitive.BINARY}
        self._strings = [item.name for item in schema if item.type in (Primitive.STRING, Primitive.BINARY)]
        self._needs_texts = any(isinstance(item.type, Decimal) for item in schema)
        self._times = [item.name for item in schema if isinstance(item.type, Timestamp)]
        self.integer_times: set[str] = set()
        """Timestamp columns that are read as integers just now; the others as strings."""

    @property
    def possible(self) -> bool:
        """Whether every type of the schema can be read this way."""
        return all(_is_columnar(item.type) for item in self._schema)

    def look(self, values: pa.Array) -> None:
        """Decides from the first, middle and last message whether times are integers or strings."""
        if not self._times:
            return
        samples = [sample for place in (0, len(values) // 2, -1) if (sample := _object(values[place].as_py()))]
        for name in self._times:
            kinds = Counter(type(sample.get(name)) for sample in samples)
            if kinds[int] > kinds[str]:
                self.integer_times.add(name)
            elif kinds[str]:
                self.integer_times.discard(name)

    def read(self, joined: bytes, values: pa.Array) -> tuple[pl.DataFrame, Mask] | None:
        """Rows of the messages `values`, which `joined` holds one on each line, and a mask of the doubtful ones.

        None where a message is bad, or is several lines: nothing is known then.
        """
        frame = self._load(joined, len(values), self._categories)
        if frame is None:
            return None
        coerced = self._coerced(frame, self._categories)
        often = {name for name, mask in coerced.items() if mask.sum() > _DOUBTFUL_MAX}
        if often:
            self._categories |= often
            return self.read(joined, values)
        return self._finished(frame, joined, values, coerced)

    @property
    def tolerates(self) -> bool:
        """Whether `read_tolerantly` may be called: what is wrong inside a list or struct would go unseen."""
        return not self._nests()

    def read_tolerantly(self, joined: bytes, values: pa.Array) -> tuple[pl.DataFrame, Mask] | None:
        """The same for messages that may hold values of wrong types: NULLs that may stand for those are doubtful too.

        None where a message is no JSON, or where so many rows are doubtful that this way does not pay.
        """
        frame = self._load(joined, len(values), frozenset(), forgiving=True)
        if frame is None:
            return None
        coerced = self._coerced(frame, frozenset())
        for name in frame.columns:
            if frame[name].null_count():
                coerced[name] = _forgiven(name, frame[name], values) | coerced.get(name, False)
        if sum(int(mask.sum()) for mask in coerced.values()) > len(values) * _FORGIVEN_SHARE:
            return None
        return self._finished(frame, joined, values, coerced)

    def _finished(
        self, frame: pl.DataFrame, joined: bytes, values: pa.Array, coerced: dict[str, Mask]
    ) -> tuple[pl.DataFrame, Mask] | None:
        doubtful = np.zeros(len(values), dtype=np.bool_)
        for mask in coerced.values():
            doubtful |= mask
        texts = _texts(values) if self._needs_texts or b"\\" in joined else None
        if texts is not None:
            doubtful |= texts.str.contains(_SURROGATE).to_numpy()
        columns = []
        for item in self._schema:
            column, doubts = self._finish(item, frame[item.name], texts)
            if not item.nullable and column.null_count():
                doubtful |= column.is_null().to_numpy()
            if _misses_inner(column, item.type):
                return None
            if doubts is not None:
                doubtful |= doubts
            columns.append(column)
        return pl.DataFrame(columns), doubtful

    def _load(
        self, joined: bytes, size: int, categories: AbstractSet[str], *, forgiving: bool = False
    ) -> pl.DataFrame | None:
        # A set of categories for each call: it is forgotten with the frame.
        category = pl.Categorical(pl.Categories.random()) if categories or self._nests() else pl.Categorical()
        schema = {item.name: self._reading_type(item, category, categories) for item in self._schema}
        try:
            frame = pl.read_ndjson(joined, schema=schema, ignore_errors=forgiving)
        except pl.exceptions.PolarsError:
            return None
        return frame if frame.height == size else None

    def _coerced(self, frame: pl.DataFrame, categories: AbstractSet[str]) -> dict[str, Mask]:
        """For columns that were read as strings: where the text could be that of another value."""
        found = {}
        for name in self._strings:
            if name not in categories and (mask := _look_coerced(frame[name])) is not None:
                found[name] = mask
        return found

    def _nests(self) -> bool:
        return any(isinstance(item.type, ListOf | Struct) for item in self._schema)

    def _reading_type(self, item: Field, category: pl.Categorical, categories: AbstractSet[str]) -> pl.DataType:
        match item.type:
            case Timestamp():
                return pl.Int64() if item.name in self.integer_times else pl.String()
            case Decimal() | Primitive.DATE:
                return pl.String()
            case Primitive.STRING | Primitive.BINARY:
                return category if item.name in categories else pl.String()
            case Primitive.FLOAT32:
                return pl.Float64()
            case _:
                return _nested_reading_type(item.type, category)

    def _finish(self, item: Field, read: pl.Series, texts: pl.Series | None) -> tuple[pl.Series, Mask | None]:
        """The column in its final type, and which rows are doubtful (None: none)."""
        match item.type:
            case Primitive.BINARY:
                decoded = read.cast(pl.String).str.decode("base64", strict=False)
                return decoded, _lost(read, decoded)
            case Primitive.DATE:
                days, understood = parse_dates(read)
                return _filled(read, days, understood, pl.Date())
            case Timestamp(unit) if item.name in self.integer_times:
                factor = MICROSECONDS[unit]
                outside = _marked((read > INT64_MAX // factor) | (read < -(INT64_MAX // factor)))
                return (read * factor).cast(polars_type(item.type)), outside
            case Timestamp():
                micros, understood = parse_timestamps(read)
                return _filled(read, micros, understood, polars_type(item.type))
            case Decimal():
                assert texts is not None, "decimals are read from the text of messages"
                numbers = read_decimals(item.name, item.type, texts, read)
                return numbers, _lost(read, numbers)
            case Primitive.FLOAT32:
                return read.cast(pl.Float32), _marked(read.abs() >= FLOAT32_LIMIT)
            case _:
                final = polars_type(item.type)
                return read if read.dtype == final else read.cast(final), None


def _is_columnar(dtype: DataType, *, nested: bool = False) -> bool:
    match dtype:
        case ListOf(inner):
            return _is_columnar(inner, nested=True)
        case Struct(fields):
            return all(_is_columnar(item.type, nested=True) for item in fields)
        case _:
            return not nested or dtype in _PLAIN


def _nested_reading_type(dtype: DataType, category: pl.Categorical) -> pl.DataType:
    """Strings inside lists and structs are always read as categories."""
    match dtype:
        case ListOf(inner):
            return pl.List(_nested_reading_type(inner, category))
        case Struct(fields):
            return pl.Struct({item.name: _nested_reading_type(item.type, category) for item in fields})
        case Primitive.STRING:
            return category
        case _:
            return polars_type(dtype)


def _misses_inner(column: pl.Series, dtype: DataType) -> bool:
    """Whether a value inside a list or struct is NULL that must not be."""
    match dtype:
        case ListOf(inner, nullable):
            if nullable and not isinstance(inner, ListOf | Struct):
                return False
            items = column.drop_nulls()
            items = items.filter(items.list.len() > 0).explode()
            return bool(not nullable and items.null_count()) or _misses_inner(items, inner)
        case Struct(fields):
            present = column.drop_nulls()
            inner_columns = [(item, present.struct.field(item.name)) for item in fields]
            return any(
                bool(not item.nullable and values.null_count()) or _misses_inner(values, item.type)
                for item, values in inner_columns
            )
        case _:
            return False


def _object(raw: bytes) -> dict[str, object]:
    try:
        parsed = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return parsed if type(parsed) is dict else {}


def _texts(values: pa.Array) -> pl.Series:
    """Messages that are known to be UTF-8, as strings."""
    return pl.Series(pl.from_arrow(values)).cast(pl.String)


def _forgiven(name: str, read: pl.Series, values: pa.Array) -> Mask:
    """Where a NULL may stand for a value of a wrong type.

    It does not where the message has no escapes and either no such key at all, or only one, with null after it.
    """
    doubtful = read.is_null().to_numpy(writable=True)
    key = orjson.dumps(name)
    present = key + b":null", key + b": null"
    nulls = np.flatnonzero(doubtful)
    for index, raw in zip(nulls.tolist(), take(values, nulls).to_pylist(), strict=True):
        count = raw.count(key)
        if b"\\" not in raw and (count == 0 or (count == 1 and (present[0] in raw or present[1] in raw))):
            doubtful[index] = False
    return doubtful


def _look_coerced(texts: pl.Series) -> Mask | None:
    """Where a text could be that of a number, boolean, list or object; None where none could."""
    if len(texts) > _ROWS_FEW:
        return _marked(texts.str.contains(_LOOKS_COERCED))
    looks = _COERCED.match
    found = [text is not None and looks(text) is not None for text in texts.to_list()]
    return np.array(found, dtype=np.bool_) if True in found else None


def _marked(found: pl.Series) -> Mask | None:
    """A boolean column as a mask; None where nothing is marked."""
    return found.fill_null(value=False).to_numpy() if found.any() else None


def _lost(before: pl.Series, after: pl.Series) -> Mask | None:
    """Where a value became NULL."""
    if before.null_count() == after.null_count():
        return None
    return (after.is_null() & before.is_not_null()).to_numpy()


def _filled(read: pl.Series, values: np.ndarray, understood: Mask, dtype: pl.DataType) -> tuple[pl.Series, Mask | None]:
    """Understood values as a column of `dtype`, NULL elsewhere; doubtful is what is neither NULL nor understood."""
    column = pl.Series(read.name, values)
    if not understood.all():
        column = column.set(pl.Series(~understood), None)
    if dtype == pl.Date:
        column = column.cast(pl.Int32)
    column = column.cast(dtype)
    return column, _lost(read, column)
