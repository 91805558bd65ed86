"""Reads and writes columns of text: RFC 3339 timestamps and dates, by arithmetic on bytes.

Reading is exact where it says ok; what it does not say ok about (rare spellings as well as nonsense) is for `text_values`, value
by value. The library's parsers are not used: they accept one-digit months, signs, blanks and second 60.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_Parse = Callable[[Bytes], tuple[Ints, Mask]]

_DAYS_IN = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
_DAYS_BEFORE = np.concatenate([[0], np.cumsum(_DAYS_IN)[:12]]).astype(np.int64)
_EPOCH_ORDINAL = 719_163
"""Day number of 1970-01-01, where 0001-01-01 is 1."""
_SECOND_US = 1_000_000
_MATRIX_ROWS_MIN = 256
"""Fewer rows are formatted faster by the library."""
_YEAR_1_US = (1 - _EPOCH_ORDINAL) * 86_400 * _SECOND_US
_YEAR_10000_US = (3_652_060 - _EPOCH_ORDINAL) * 86_400 * _SECOND_US


def parse_timestamps(texts: pl.Series) -> tuple[Ints, Mask]:
    """String column to epoch microseconds and whether each was understood; NULLs are not."""
    return _by_length(texts, range(19, 36), _timestamps)


def parse_dates(texts: pl.Series) -> tuple[Ints, Mask]:
    """String column to days since the epoch and whether each was understood; NULLs are not."""
    return _by_length(texts, range(10, 11), _days)


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
    """Texts that are all `length` bytes long, one a row."""
    return np.frombuffer(texts.str.join("").item().encode(), dtype=np.uint8).reshape(len(texts), length)


def _number(digits: Bytes, begin: int, end: int) -> Ints:
    value = digits[:, begin].astype(np.int64)
    for place in range(begin + 1, end):
        value *= 10
        value += digits[:, place]
    return value


def _days(rows: Bytes) -> tuple[Ints, Mask]:
    """Days since the epoch from the first ten bytes of each row."""
    digits = rows[:, :10] - np.uint8(ord("0"))  # wraps around for what is below "0": also above 9
    year, month, day = _number(digits, 0, 4), _number(digits, 5, 7), _number(digits, 8, 10)
    understood = (digits[:, [0, 1, 2, 3, 5, 6, 8, 9]] <= 9).all(axis=1)
    understood &= (rows[:, 4] == ord("-")) & (rows[:, 7] == ord("-"))
    understood &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    month = np.where(understood, month, 1)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    understood &= day <= _DAYS_IN[month] + (leap & (month == 2))
    before = year - 1
    ordinal = before * 365 + before // 4 - before // 100 + before // 400 + _DAYS_BEFORE[month - 1] + day
    ordinal += leap & (month > 2)
    return ordinal - _EPOCH_ORDINAL, understood


def _timestamps(rows: Bytes) -> tuple[Ints, Mask]:
    """Epoch microseconds of rows of one length: seconds, then a fraction or none, then `Z`, an offset or nothing."""
    days, understood = _days(rows)
    digits = rows - np.uint8(ord("0"))
    hour, minute, second = _number(digits, 11, 13), _number(digits, 14, 16), _number(digits, 17, 19)
    understood &= (digits[:, [11, 12, 14, 15, 17, 18]] <= 9).all(axis=1)
    understood &= ((rows[:, 10] == ord("T")) | (rows[:, 10] == ord(" "))) & (rows[:, 13] == ord(":"))
    understood &= (rows[:, 16] == ord(":")) & (hour <= 23) & (minute <= 59) & (second <= 59)
    micros = ((days * 24 + hour) * 60 + minute) * 60 * _SECOND_US + second * _SECOND_US
    rest = rows[:, 19:]
    added, rest_understood = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
    for width, zone in ((0, _no_zone), (1, _zulu), (6, _offset)):
        fraction, zone_text = rest[:, : rest.shape[1] - width], rest[:, rest.shape[1] - width :]
        if rest.shape[1] < width:
            continue
        fraction_us, fraction_understood = _fraction(fraction)
        zone_us, zone_understood = zone(zone_text)
        matches = fraction_understood & zone_understood
        added = np.where(matches, fraction_us + zone_us, added)
        rest_understood |= matches
    return micros + added, understood & rest_understood


def _fraction(rows: Bytes) -> tuple[Ints, Mask]:
    """Microseconds of `.` and one to nine digits, floored; nothing at all is 0."""
    size, width = rows.shape
    if width == 0:
        return np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.bool_)
    if width == 1 or width > 10:
        return np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    digits = rows[:, 1:] - np.uint8(ord("0"))
    value = _number(digits, 0, min(width - 1, 6)) * 10 ** max(0, 7 - width)
    return value, (rows[:, 0] == ord(".")) & (digits <= 9).all(axis=1)


def _no_zone(rows: Bytes) -> tuple[Ints, Mask]:
    return np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)


def _zulu(rows: Bytes) -> tuple[Ints, Mask]:
    return np.zeros(len(rows), dtype=np.int64), rows[:, 0] == ord("Z")


def _offset(rows: Bytes) -> tuple[Ints, Mask]:
    """`+hh:mm` or `-hh:mm` as what must be added to reach UTC."""
    digits = rows - np.uint8(ord("0"))
    hour, minute = _number(digits, 1, 3), _number(digits, 4, 6)
    understood = (digits[:, [1, 2, 4, 5]] <= 9).all(axis=1) & (rows[:, 3] == ord(":")) & (hour <= 23) & (minute <= 59)
    negative = rows[:, 0] == ord("-")
    understood &= negative | (rows[:, 0] == ord("+"))
    micros = (hour * 60 + minute) * 60 * _SECOND_US
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
    """Texts of one length, written as a matrix of bytes."""
    template = f"0000-00-00T00:00:00.{'0' * fraction_digits}Z".encode()
    rows = np.tile(np.frombuffer(template, dtype=np.uint8), (len(values), 1))
    seconds, fraction = np.divmod(values, _SECOND_US)
    days, seconds = np.divmod(seconds, 86_400)
    year, month, day = _civil(days)
    minutes, second = np.divmod(seconds, 60)
    hour, minute = np.divmod(minutes, 60)
    parts = ((year, 0, 4), (month, 5, 7), (day, 8, 10), (hour, 11, 13), (minute, 14, 16), (second, 17, 19))
    for number, begin, end in (*parts, (fraction // 10 ** (6 - fraction_digits), 20, 20 + fraction_digits)):
        _write_number(rows, number, begin, end)
    offsets = np.arange(0, rows.size + 1, len(template), dtype=np.int64)
    texts = pa.LargeStringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(rows))
    return pl.Series(pl.from_arrow(texts))


def _write_number(rows: Bytes, number: Ints, begin: int, end: int) -> None:
    rest = number.astype(np.int32)
    for place in range(end - 1, begin, -1):
        rest, digit = np.divmod(rest, np.int32(10))
        rows[:, place] += digit.astype(np.uint8)
    rows[:, begin] += rest.astype(np.uint8)


def _civil(days: Ints) -> tuple[Ints, Ints, Ints]:
    """Year, month and day of days since the epoch, in the proleptic Gregorian calendar.

    Counts from 0000-03-01, so that the leap day is the last of a year.
    """
    era, day_of_era = np.divmod(days + 719_468, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = np.where(shifted < 10, shifted + 3, shifted - 9)
    return year + era * 400 + (month <= 2), month, day
