"""Computes a generated column's values from seed, partition and row number. Pure and vectorised.

Every value is a function of (seed, column, row number over all partitions) alone: it does not depend on batch sizes,
pauses and restarts.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.errors import UserError
from headrace.core.types import DataType, Primitive, Timestamp, polars_type
from headrace_connectors.generator.rules import ColumnRule

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345", np.uint8)
_LETTERS_A_WORD = 12
_NULLS, _FIRST_LETTERS = 1, 2
"""Streams of further random words of a row: for NULL, and for letters beyond the first twelve."""


def mixed(seed: int, stream: int, rows: Numbers) -> Words:
    """One random 64-bit word per row (splitmix64; Steele et al., OOPSLA 2014): independent for every seed and
    stream."""
    # mixing the seed first: otherwise neighbouring seeds would yield shifted copies of each other
    base = _finish(np.array([(seed * 0x9E3779B97F4A7C15 + stream + 1) & 0xFFFFFFFFFFFFFFFF], np.uint64))
    return _finish(base + rows.astype(np.uint64) * _GAMMA)


def _finish(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


class ColumnMaker:
    """Computes one column of a schema."""

    def __init__(self, name: str, rule: ColumnRule, dtype: DataType, seed: int) -> None:
        self._name, self._rule, self._seed = name, rule, seed
        self._dtype = polars_type(dtype)
        # the name, not the position, selects the stream, so that other columns do not change this one
        self._stream = zlib.crc32(name.encode()) << 20
        self._choices = None if rule.choice is None else _typed_choices(name, rule.choice, dtype)

    def make(self, rows: Numbers) -> pl.Series:
        """The values at these row numbers. Raises UserError if they do not fit the column's type."""
        try:
            column = self._values(rows).cast(self._dtype).alias(self._name)
        except pl.exceptions.PolarsError as cause:
            raise UserError(f"generated column {self._name!r} does not fit its type: {cause}") from cause
        if self._rule.nulls == 0:
            return column
        drawn = _unit(mixed(self._seed, self._stream + _NULLS, rows)) < self._rule.nulls
        return pl.select(pl.when(~pl.Series(drawn)).then(column).alias(self._name)).to_series()

    def _values(self, rows: Numbers) -> pl.Series:
        rule = self._rule
        if rule.sequence is not None:
            return pl.Series(rule.sequence.start + rows * rule.sequence.step)
        if rule.string is not None:
            return self._strings(rows, rule.string.length)
        words = mixed(self._seed, self._stream, rows)
        if rule.int is not None:
            span = np.uint64((rule.int.max - rule.int.min + 1) & 0xFFFFFFFFFFFFFFFF)
            offsets = words if span == 0 else words % span
            return pl.Series(offsets.astype(np.int64) + np.int64(rule.int.min))
        if rule.float is not None:
            return pl.Series(rule.float.min + _unit(words) * (rule.float.max - rule.float.min))
        if rule.bool is not None:
            return pl.Series(_unit(words) < rule.bool.probability)
        if self._choices is not None:
            return self._choices.gather(pl.Series(words % np.uint64(len(self._choices))))
        assert rule.time is not None
        late = (words % np.uint64(rule.time.jitter + 1)).astype(np.int64)
        stamps = int(rule.time.start.timestamp() * 1000) + rows * rule.time.step + late
        return pl.Series(stamps).cast(pl.Datetime("ms", "UTC"))

    def _strings(self, rows: Numbers, length: int) -> pl.Series:
        letters = np.empty((len(rows), length), np.uint8)
        for place in range(length):
            group, within = divmod(place, _LETTERS_A_WORD)
            if within == 0:
                words = mixed(self._seed, self._stream + (_FIRST_LETTERS + group if group else 0), rows)
            letters[:, place] = _ALPHABET[(words >> np.uint64(5 * within)) & np.uint64(31)]
        offsets = np.arange(0, (len(rows) + 1) * length, length, dtype=np.int64)
        import pyarrow as pa

        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        series = pl.from_arrow(pa.Array.from_buffers(pa.large_string(), len(rows), buffers))
        assert isinstance(series, pl.Series)
        return series


def _unit(words: Words) -> npt.NDArray[np.float64]:
    """Values in [0, 1) with 53 random bits."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _typed_choices(name: str, choices: tuple[Any, ...], dtype: DataType) -> pl.Series:
    texts = pl.Series([None if item is None else str(item) for item in choices], dtype=pl.String)
    try:
        match dtype:
            case Timestamp():
                return texts.str.to_datetime(time_zone="UTC", time_unit="us")
            case Primitive.DATE:
                return texts.str.to_date()
            case Primitive.BOOL:
                return texts.str.to_lowercase().replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)
            case _:
                return texts.cast(polars_type(dtype))
    except pl.exceptions.PolarsError as cause:
        raise UserError(f"a choice of generated column {name!r} is no {dtype}: {list(choices)}") from cause
