"""Random runs of keyed state, keys asked of them, and what plain Python finds in them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.kernels.state.runs import AskedKeys, RunColumns, Words
from support.kernels.bits import Difference, difference
from support.kernels.group_frames import KEY_TYPES, Group, column, plain
from support.kernels.guarded import guarded_copy

Place = tuple[int, int]
_NESTED: tuple[pl.DataType, ...] = (pl.List(pl.Int64()), pl.Struct({"x": pl.Int32(), "y": pl.String()}))
_VALUE_TYPES: tuple[pl.DataType, ...] = (
    *(pl.Int64(), pl.Int32(), pl.Float64(), pl.Float32(), pl.Date(), pl.Datetime("us", "UTC"), pl.Decimal(18, 3)),
    *(pl.Int128(), pl.String(), pl.Binary(), pl.Boolean(), pl.Int8(), pl.UInt16(), pl.UInt64(), *_NESTED),
)


@dataclass(frozen=True, slots=True)
class State:
    """Runs, newest first, and keys that are asked of them.

    names     the key columns
    words     of the rows of each run
    """

    names: tuple[str, ...]
    runs: tuple[RunColumns, ...]
    words: tuple[Words, ...]
    asked: pl.DataFrame
    asked_words: Words

    @property
    def asked_keys(self) -> AskedKeys:
        """The keys in the order of the frame."""
        return AskedKeys(self.asked_words, self.asked)


def random_state(random: Random, runs: int, rows: int, *, unique: bool) -> State:
    """Runs of up to `rows` rows each, of keys that several runs have, many with equal words.

    unique: a run has each key at most once
    """
    keys = _pool(random, max(1, rows * 2))
    keys_words = _words(random, keys)
    types = [random.choice(_VALUE_TYPES) for _ in range(random.randint(0, 4))]
    frames, words = [], []
    for _ in range(runs):
        count = min(random.choice([0, 1, 2, 9, rows]), keys.height)
        picks = random.sample(range(keys.height), count) if unique else random.choices(range(keys.height), k=count)
        chosen = np.array(picks, np.int64)
        order = chosen[np.argsort(keys_words[chosen], kind="stable")]
        frames.append(_stored(random, keys[pl.Series(order)].with_columns(_values(random, types, len(order)))))
        words.append(keys_words[order])
    asked = np.array(random.choices(range(keys.height), k=random.choice([0, 1, 64, 65, rows])), np.int64)
    return State(
        tuple(keys.columns),
        tuple(RunColumns(frame, keys.columns, guarded_words(of)) for frame, of in zip(frames, words, strict=True)),
        tuple(words),
        _stored(random, keys[pl.Series(asked)]),
        guarded_words(keys_words[asked]),
    )


def _pool(random: Random, count: int) -> pl.DataFrame:
    """Distinct keys; floats in normal form."""
    types = [random.choice([*KEY_TYPES, pl.Float64(), pl.Float32()]) for _ in range(random.choice([1, 1, 2, 3]))]
    drawn = [column(random, dtype, count, spread=count).alias(f"k{n}") for n, dtype in enumerate(types)]
    return pl.DataFrame([in_normal_form(item) for item in drawn]).unique(maintain_order=True)


def in_normal_form(values: pl.Series) -> pl.Series:
    """One zero, one NaN."""
    if not values.dtype.is_float():
        return values
    # polars leaves out an addition of 0.0
    return values.fill_nan(float("nan")).set(values == 0.0, 0.0)


def _words(random: Random, keys: pl.DataFrame) -> Words:
    """A word for each key: a hash, of which few values or few bits are left at times."""
    hashes = np.array([zlib.crc32(repr(key).encode()) for key in keys_of(keys, keys.columns)], np.uint64)
    match random.randrange(4):
        case 0:
            return hashes % np.uint64(random.choice([1, 2, 50]))
        case 1:
            return hashes % np.uint64(5) << np.uint64(61)
        case 2:
            return np.uint64(2**64 - 1) - (hashes & np.uint64(7))
        case _:
            return hashes * np.uint64(0x9E3779B185EBCA87)


def _values(random: Random, types: Sequence[pl.DataType], count: int) -> list[pl.Series]:
    return [_value_column(random, dtype, count).alias(f"v{n}") for n, dtype in enumerate(types)]


def _value_column(random: Random, dtype: pl.DataType, count: int) -> pl.Series:
    if dtype.is_nested():
        chosen: list[object] = [None, [1, None], []] if dtype == _NESTED[0] else [None, {"x": 1, "y": "a"}]
        return pl.Series(random.choices(chosen, k=count), dtype=dtype)
    if dtype in (pl.Int8, pl.UInt16, pl.UInt64):
        return pl.Series([random.choice([None, 0, 1, 100]) for _ in range(count)], dtype=dtype)
    return column(random, dtype, count, spread=max(1, count))


def _stored(random: Random, frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows: in one chunk, in several, from the middle of their buffers, or in guarded buffers."""
    match random.randrange(5):
        case 0:
            return guarded_frame(frame)
        case 1:
            cut = random.randint(0, frame.height)
            return pl.concat([frame[:cut], frame[cut:]], rechunk=False)
        case 2:
            return pl.concat([frame.head(3), frame], rechunk=True)[min(3, frame.height) :]
        case _:
            return frame


def guarded_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """A copy whose buffers end at unreadable pages; columns of nested types and Int128 stay as they are."""
    copied = [item if item.dtype.is_nested() or item.dtype == pl.Int128 else _guarded(item) for item in frame]
    return pl.DataFrame(copied)


def _guarded(values: pl.Series) -> pl.Series:
    array = values.rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
    if array.offset or not len(array):
        return values
    buffers = [None if buffer is None else _guarded_buffer(buffer.to_pybytes()) for buffer in array.buffers()]
    return pl.Series(values.name, pa.Array.from_buffers(array.type, len(array), buffers), dtype=values.dtype)


def _guarded_buffer(data: bytes) -> pa.Buffer:
    memory = guarded_copy(data)
    return pa.foreign_buffer(memory.address, memory.size, memory)


def guarded_words(words: Words) -> Words:
    """A copy that ends at an unreadable page."""
    if not len(words):
        return words
    return np.frombuffer(_guarded_buffer(words.tobytes()), np.uint64)


def keys_of(frame: pl.DataFrame, names: Sequence[str]) -> list[Group]:
    """The key of each row, as values of which two are equal only if the keys are."""
    return [tuple(map(plain, key)) for key in frame.select(names).rows()]


# ---- what is expected ------------------------------------------------------------------------------------------------


def expected_matches(state: State) -> list[list[Place]]:
    """Of each asked row, all places that have its key, by run and row."""
    rows: dict[Group, list[Place]] = {}
    for number, run in enumerate(state.runs):
        for row, key in enumerate(keys_of(run.frame, state.names)):
            rows.setdefault(key, []).append((number, row))
    return [rows.get(key, []) for key in keys_of(state.asked, state.names)]


def expected_merge(state: State, *, unique: bool) -> list[Place]:
    """The places of all rows by word, run and row; unique: only those of the first run of each key."""
    places = sorted(
        (int(word), number, row) for number, words in enumerate(state.words) for row, word in enumerate(words)
    )
    if not unique:
        return [(number, row) for _, number, row in places]
    keys = [keys_of(run.frame, state.names) for run in state.runs]
    first: dict[Group, int] = {}
    for number, run_keys in enumerate(keys):
        for key in run_keys:
            first.setdefault(key, number)
    return [(number, row) for _, number, row in places if first[keys[number][row]] == number]


def random_places(random: Random, state: State, count: int) -> list[Place]:
    """Rows of runs, some of them missing."""
    filled = [number for number, run in enumerate(state.runs) if run.frame.height]
    if not filled:
        return [(-1, 0)] * count
    missing = random.choice([0.0, 0.3, 1.0])
    return [
        (-1, random.choice([0, 2**32 - 1]))
        if random.random() < missing
        else (number := random.choice(filled), random.randrange(state.runs[number].frame.height))
        for _ in range(count)
    ]


def expected_rows(state: State, places: Sequence[Place], columns: Sequence[str]) -> pl.DataFrame:
    """The rows at these places, as polars takes them from all runs laid end to end, with a row of NULLs behind."""
    frames = [run.frame.select(columns) for run in state.runs]
    begins = np.cumsum([0, *(frame.height for frame in frames)])
    index = [int(begins[-1] if number < 0 else begins[number] + row) for number, row in places]
    whole = pl.concat([*frames, frames[0].clear(1)])
    return whole[pl.Series(index, dtype=pl.UInt32)]


def rows_difference(left: pl.DataFrame, right: pl.DataFrame) -> Difference | None:
    """The first difference of two frames, bit by bit."""
    if left.schema != right.schema:
        return Difference(f"columns {left.schema} and {right.schema}")
    # pyarrow, which compares bits, has no Int128
    wide = pl.col(pl.Int128).cast(pl.String)
    return difference(left.with_columns(wide), right.with_columns(wide))


def arrays_of(places: Sequence[Place]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """Places as the kernels take them."""
    return (
        np.array([number for number, _ in places], np.int32),
        np.array([row for _, row in places], np.uint32),
    )


def places_of(run: npt.NDArray[np.int32], row: npt.NDArray[np.uint32]) -> list[Place]:
    """Places as tuples."""
    return list(zip(run.tolist(), row.tolist(), strict=True))
