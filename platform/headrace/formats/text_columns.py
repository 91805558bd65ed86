"""Parses and formats columns of text: RFC 3339 timestamps and dates, by arithmetic on bytes.

A value marked as understood is exact. Others (rare spellings as well as invalid text) are left to `text_values`, one by
one. The library's parser is too lenient on its own: it accepts one-digit months, signs, blanks and second 60. So it
only parses texts that have been checked to have a digit at every digit position.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Whole = TypeVar("Whole", Ints, Numbers)
_Parse = Callable[[Bytes], tuple[Ints, Mask]]

_DAYS_IN = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int32)
_DAYS_BEFORE = np.cumsum(_DAYS_IN)[:12].astype(np.int32)
_EPOCH_ORDINAL = 719_163
"""Day number of 1970-01-01, with 0001-01-01 as day 1."""
_SECOND_US = 1_000_000
_TILE_ROWS = 8192
_MATRIX_ROWS_MIN = 256
"""The library formats fewer rows faster."""
_YEAR_1_US = (1 - _EPOCH_ORDINAL) * 86_400 * _SECOND_US
_YEAR_10000_US = (3_652_060 - _EPOCH_ORDINAL) * 86_400 * _SECOND_US


def parse_timestamps(texts: pl.Series) -> tuple[Ints, Mask]:
    """String column to epoch microseconds, and the mask of values understood; NULLs are not."""
    uniform = _uniform_timestamps(texts)
    return uniform if uniform is not None else _by_length(texts, range(19, 36), _timestamps)


def parse_dates(texts: pl.Series) -> tuple[Ints, Mask]:
    """String column to days since the epoch, and the mask of values understood; NULLs are not."""
    return _by_length(texts, range(10, 11), _days)


def _uniform_timestamps(texts: pl.Series) -> tuple[Ints, Mask] | None:
    """The common case: valid texts of one length in UTC. None in other cases."""
    size = len(texts)
    lengths = texts.str.len_bytes()
    length = lengths.min()
    if not size or texts.null_count() or not isinstance(length, int) or lengths.max() != length:
        return None
    first = texts[0]
    zone = "Z" if first.endswith("Z") else ""
    digits = length - 20 - len(zone)
    if not (digits == -1 or 1 <= digits <= 9):
        return None
    fraction = b"" if digits < 0 else b"." + b"0" * digits
    low = b"0000-00-00T00:00:00" + fraction + zone.encode()
    high = b"9999-19-39T29:59:59" + fraction.replace(b"0", b"9") + zone.encode()
    text = _bytes(texts)
    for begin in range(0, size, _TILE_ROWS):
        part = text[begin * length : (begin + _TILE_ROWS) * length]
        lowest, span = _tiles(low, high)
        if not ((part - lowest[: len(part)]) <= span[: len(part)]).all():
            return None
    pattern = "%Y-%m-%dT%H:%M:%S" + ("%.f" if fraction else "") + zone
    micros = texts.str.to_datetime(pattern, time_unit="us", strict=False).cast(pl.Int64)
    least = micros.min()
    if micros.null_count() or not isinstance(least, int) or least < _YEAR_1_US:
        return None
    return micros.to_numpy(), np.ones(size, dtype=np.bool_)


@lru_cache(maxsize=8)
def _tiles(low: bytes, high: bytes) -> tuple[Bytes, Bytes]:
    """`low` and the distance to `high`, repeated `_TILE_ROWS` times: comparing long byte arrays is fast."""
    lowest = np.frombuffer(low, dtype=np.uint8)
    return np.tile(lowest, _TILE_ROWS), np.tile(np.frombuffer(high, dtype=np.uint8) - lowest, _TILE_ROWS)


def _by_length(texts: pl.Series, lengths: range, parse: _Parse) -> tuple[Ints, Mask]:
    """Applies `parse` to the texts of each length in `lengths`, as a matrix of bytes."""
    size = len(texts)
    found = texts.str.len_bytes().fill_null(0).to_numpy()
    if size and found[0] in lengths and (found == found[0]).all():
        return parse(_matrix(texts, int(found[0])))
    values, understood = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    for length in np.unique(found):
        if length in lengths:
            index = np.flatnonzero(found == length)
            values[index], understood[index] = parse(_matrix(texts.gather(index), int(length)))
    return values, understood


def _matrix(texts: pl.Series, length: int) -> Bytes:
    """Texts of exactly `length` bytes, one per row."""
    return _bytes(texts).reshape(len(texts), length)


def _bytes(texts: pl.Series) -> Bytes:
    """All bytes of texts without NULLs, concatenated."""
    array = texts.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    begin, end = np.frombuffer(offsets, dtype=np.int64)[[array.offset, array.offset + len(array)]]
    return np.frombuffer(data, dtype=np.uint8)[begin:end]


def _fits(rows: Bytes, low: bytes, high: bytes) -> Mask:
    """Whether every byte of a row lies between those of `low` and `high` at its position."""
    lowest = np.frombuffer(low, dtype=np.uint8)
    fits = (rows - lowest) <= np.frombuffer(
        high, dtype=np.uint8
    ) - lowest  # uint8 wraps around: a byte below `low` becomes large and fails the comparison
    return np.asarray(fits.all(axis=1))


def _number(rows: Bytes, begin: int, end: int) -> Numbers:
    """The decimal number of the digits at [begin, end), at most nine of them."""
    value = rows[:, begin].astype(np.int32)
    for place in range(begin + 1, end):
        value *= 10
        value += rows[:, place]
    # subtracts the ASCII code of "0" from all digits at once
    value -= int("1" * (end - begin)) * ord("0")
    return value


def _days(rows: Bytes) -> tuple[Ints, Mask]:
    """Days since the epoch from the first ten bytes of each row."""
    understood = _fits(rows[:, :10], b"0000-00-00", b"9999-19-39")
    year, month, day = _number(rows, 0, 4), _number(rows, 5, 7), _number(rows, 8, 10)
    understood &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    if not understood.all():
        year, month = np.where(understood, year, 1), np.where(understood, month, 1)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    understood &= day <= _DAYS_IN[month] + (leap & (month == 2))
    before = year - 1
    ordinal = before * 365 + before // 4 - before // 100 + before // 400 + _DAYS_BEFORE[month - 1] + day
    ordinal += leap & (month > 2)
    return ordinal.astype(np.int64) - _EPOCH_ORDINAL, understood


def _timestamps(rows: Bytes) -> tuple[Ints, Mask]:
    """Epoch microseconds of rows of one length: seconds, then a fraction or none, then `Z`, an offset or nothing."""
    days, understood = _days(rows)
    clock = rows[:, 10:19]
    fits = _fits(clock, b"T00:00:00", b"T29:59:59")
    understood &= fits if fits.all() else fits | _fits(clock, b" 00:00:00", b" 29:59:59")
    hour, minute, second = _number(clock, 1, 3), _number(clock, 4, 6), _number(clock, 7, 9)
    understood &= hour <= 23
    micros = (days * 86_400 + (hour * 3_600 + minute * 60 + second)) * _SECOND_US
    rest = rows[:, 19:]
    if rest.shape[1] == 1:
        return micros, understood & (rest[:, 0] == ord("Z"))
    added, rest_understood = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
    for width, zone in ((0, _no_zone), (1, _zulu), (6, _offset)):
        if rest.shape[1] < width:
            continue
        split = rest.shape[1] - width
        fraction_us, fraction_understood = _fraction(rest[:, :split])
        zone_us, zone_understood = zone(rest[:, split:])
        matches = fraction_understood & zone_understood
        added = np.where(matches, fraction_us + zone_us, added)
        rest_understood |= matches
    return micros + added, understood & rest_understood


def _fraction(rows: Bytes) -> tuple[Ints, Mask]:
    """Microseconds of `.` and one to nine digits, floored; an empty text is 0."""
    size, width = rows.shape
    if width == 0:
        return np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.bool_)
    if width == 1 or width > 10:
        return np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    value = _number(rows, 1, min(width, 7)).astype(np.int64) * 10 ** max(0, 7 - width)
    return value, _fits(rows, b"." + b"0" * (width - 1), b"." + b"9" * (width - 1))


def _no_zone(rows: Bytes) -> tuple[Ints, Mask]:
    return np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)


def _zulu(rows: Bytes) -> tuple[Ints, Mask]:
    return np.zeros(len(rows), dtype=np.int64), rows[:, 0] == ord("Z")


def _offset(rows: Bytes) -> tuple[Ints, Mask]:
    """`+hh:mm` or `-hh:mm` as the microseconds to add to reach UTC."""
    hour, minute = _number(rows, 1, 3), _number(rows, 4, 6)
    negative = rows[:, 0] == ord("-")
    understood = _fits(rows[:, 1:], b"00:00", b"29:59") & (hour <= 23) & (negative | (rows[:, 0] == ord("+")))
    micros = (hour * 60 + minute).astype(np.int64) * (60 * _SECOND_US)
    return np.where(negative, micros, -micros), understood


def format_timestamps(column: pl.Series) -> pl.Series:
    """UTC microseconds as `2013-01-01T05:00:00.000Z`, with six digits only where a value has microseconds."""
    micros = column.cast(pl.Int64)
    low, high = micros.min(), micros.max()
    if len(column) < _MATRIX_ROWS_MIN or not isinstance(low, int) or not isinstance(high, int):
        return _format_by_library(column, micros)
    if low < _YEAR_1_US or high >= _YEAR_10000_US:
        return _format_by_library(column, micros)
    values = micros.fill_null(low).to_numpy()
    written = _write_timestamps(values, 3)
    if (values % 1000).any():
        written = written.zip_with(pl.Series(values % 1000 == 0), _write_timestamps(values, 6))
    if column.null_count():
        written = written.set(column.is_null(), None)
    return written.alias(column.name)


def _format_by_library(column: pl.Series, micros: pl.Series) -> pl.Series:
    written = column.dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
    whole = micros % 1000 == 0
    if whole.all():
        return written
    return written.zip_with(whole.fill_null(value=True), column.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))


def _write_timestamps(values: Ints, fraction_digits: int) -> pl.Series:
    """Texts of one length, written as one byte row per character position."""
    template = f"0000-00-00T00:00:00.{'0' * fraction_digits}Z".encode()
    places = np.empty((len(template), len(values)), dtype=np.uint8)
    for place, byte in enumerate(template):
        if byte != ord("0"):
            places[place] = byte
    seconds, micros = _divided(values, _SECOND_US)
    days, second_of_day = _divided(seconds, 86_400)
    minutes, second = _divided(second_of_day.astype(np.int32), 60)
    hour, minute = _divided(minutes, 60)
    year, month, day = _civil(days.astype(np.int32))
    parts = ((year, 0, 4), (month, 5, 7), (day, 8, 10), (hour, 11, 13), (minute, 14, 16), (second, 17, 19))
    fraction = micros.astype(np.int32) // np.int32(10 ** (6 - fraction_digits))
    for number, begin, end in (*parts, (fraction, 20, 20 + fraction_digits)):
        _write_number(places, number, begin, end)
    offsets = np.arange(0, places.size + 1, len(template), dtype=np.int64)
    written = np.ascontiguousarray(places.T)
    texts = pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(written))
    return pl.Series(pl.from_arrow(texts))


def _divided(values: Whole, divisor: int) -> tuple[Whole, Whole]:
    """Quotient (floored) and remainder; much faster than divmod."""
    quotient = values // values.dtype.type(divisor)
    return quotient, values - quotient * values.dtype.type(divisor)


def _write_number(places: Bytes, number: Numbers, begin: int, end: int) -> None:
    rest = number
    for place in range(end - 1, begin, -1):
        rest, digit = _divided(rest, 10)
        places[place] = digit + ord("0")
    places[begin] = rest + ord("0")


def _civil(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Year, month and day of days since the epoch, in the proleptic Gregorian calendar.

    Counts from 0000-03-01, so that the leap day is the last of a year (Howard Hinnant, `civil_from_days`).
    """
    era, day_of_era = _divided(days + np.int32(719_468), 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = np.where(shifted < 10, shifted + 3, shifted - 9)
    return year + era * 400 + (month <= 2), month, day
