"""Formats columns of timestamps as text, by arithmetic on bytes."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.core.time_range import MAX_US, MIN_US

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Whole = TypeVar("Whole", Ints, Numbers)

_SECOND_US = 1_000_000
_MATRIX_ROWS_MIN = 256
"""polars formats fewer rows than this faster."""


def format_timestamps(column: pl.Series) -> pl.Series:
    """UTC microseconds as `2013-01-01T05:00:00.000Z`, with six digits only where a value has microseconds."""
    micros = column.cast(pl.Int64)
    low, high = micros.min(), micros.max()
    if len(column) < _MATRIX_ROWS_MIN or not isinstance(low, int) or not isinstance(high, int):
        return _format_by_library(column, micros)
    if low < MIN_US or high > MAX_US:
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
