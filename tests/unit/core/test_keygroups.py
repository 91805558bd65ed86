"""The key hash is part of the state format: vectors pin it, and a plain XXH64 checks it on random keys."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isnan, nan

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.core.keygroups import key_groups, key_hash

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)


def rotl(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & MASK


def one_round(state: int, lane: int) -> int:
    return rotl((state + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 as its specification writes it."""
    at = 0
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= len(data):
            for i in range(4):
                lanes[i] = one_round(lanes[i], struct.unpack_from("<Q", data, at + 8 * i)[0])
            at += 32
        state = sum(rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            state = ((state ^ one_round(0, lane)) * P1 + P4) & MASK
    else:
        state = (seed + P5) & MASK
    state = (state + len(data)) & MASK
    while at + 8 <= len(data):
        state = (rotl(state ^ one_round(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        state = (rotl(state ^ (struct.unpack_from("<I", data, at)[0] * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        state = rotl(state ^ (byte * P5 & MASK), 11) * P1 & MASK
    state ^= state >> 33
    state = state * P2 & MASK
    state ^= state >> 29
    state = state * P3 & MASK
    return state ^ (state >> 32)


def test_the_oracle_is_xxh64() -> None:
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"a", 0) == 0xD24EC4F1A98C6E5B
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999
    assert xxh64(b"Nobody inspects the spammish repetition", 0) == 0xFBCEA83C8A378BF1


def word(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encoded(value: object) -> bytes:
    """The bytes that rule 8 hashes."""
    match value:
        case str():
            return value.encode()
        case bytes():
            return value
        case bool() | int():
            return word(int(value))
        case float():
            return struct.pack("<Q", 0x7FF8000000000000) if isnan(value) else struct.pack("<d", value + 0.0)
        case datetime():
            return word((value - EPOCH) // timedelta(microseconds=1))
        case date():
            return word((value - EPOCH.date()).days)
        case Decimal():
            sign, figures, _ = value.as_tuple()
            scaled = int("".join(map(str, figures)))
            return (-scaled if sign else scaled).to_bytes(16, "little", signed=True)
    raise AssertionError(value)


def oracle(values: tuple[object, ...]) -> int:
    hashes = [42 if value is None else xxh64(encoded(value), 42) for value in values]
    folded = hashes[0]
    for column in hashes[1:]:
        folded = xxh64(column.to_bytes(8, "little"), folded)
    return folded


def hundredths(scaled: int) -> Decimal:
    return Decimal((int(scaled < 0), tuple(int(digit) for digit in str(abs(scaled))), -2))


KEY_TYPES: dict[str, tuple[pl.DataType, st.SearchStrategy[object]]] = {
    "bool": (pl.Boolean(), st.booleans()),
    "int32": (pl.Int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    "float32": (pl.Float32(), st.floats(width=32)),
    "float64": (pl.Float64(), st.floats()),
    "string": (pl.String(), st.text(st.characters(exclude_categories=["Cs"]), max_size=80)),
    "binary": (pl.Binary(), st.binary(max_size=80)),
    "date": (pl.Date(), st.dates()),
    "timestamp": (pl.Datetime("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "decimal": (pl.Decimal(38, 2), st.integers(-(10**38) + 1, 10**38 - 1).map(hundredths)),
}


@given(st.data())
def test_hash_equals_the_oracle(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3, unique=True))
    height = data.draw(st.integers(0, 5))
    columns = {}
    for name in names:
        dtype, values = KEY_TYPES[name]
        drawn = data.draw(st.lists(st.none() | values, min_size=height, max_size=height))
        columns[name] = pl.Series(name, drawn, dtype=dtype)
    frame = pl.DataFrame(columns)
    expected = [oracle(tuple(row[name] for name in names)) for row in zipped(columns)]
    assert key_hash(frame, names).tolist() == expected
    # the same rows as a slice of a larger, chunked frame
    doubled = pl.concat([frame, frame], rechunk=False)
    assert key_hash(doubled, names).tolist() == expected * 2
    assert key_hash(doubled.slice(1), names).tolist() == (expected * 2)[1:]


def zipped(columns: dict[str, pl.Series]) -> list[dict[str, object]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*(c.to_list() for c in columns.values()), strict=True)
    ]


# (type, value, its hash). These numbers lie in users' checkpoints: a change here is a change of the state format.
VECTORS: list[tuple[pl.DataType, object, int]] = [
    (pl.String(), "", 0x98B1582B0977E704),
    (pl.String(), "EWR", 0x0FD14DC54F5B0DFE),
    (pl.String(), "Zürich", 0xE1784902DE661C96),
    (pl.String(), "a key of more than thirty-two bytes, so that lanes are used", 0x8C7ED82979086375),
    (pl.Binary(), b"\x00\xff", 0x0C3631B125343C22),
    (pl.Boolean(), True, 0x9ED50FD59358D232),
    (pl.Int32(), -1, 0x358AE035BFB46FD2),
    (pl.Int64(), -1, 0x358AE035BFB46FD2),
    (pl.Int64(), 0, 0xB71B47EBDA15746C),
    (pl.Int64(), 2**63 - 1, 0xD2F1C616AE7EB306),
    (pl.Float32(), 1.5, 0x6B63CE66FF6C0CB6),
    (pl.Float64(), 1.5, 0x6B63CE66FF6C0CB6),
    (pl.Float64(), -0.0, 0xB71B47EBDA15746C),
    (pl.Float64(), nan, 0xD4974F72D7833F32),
    (pl.Float64(), -inf, 0x49EAAF247927A85F),
    (pl.Date(), date(2013, 1, 1), 0x7F39969CAFE0FFC0),
    (pl.Datetime("us", "UTC"), datetime(2013, 1, 1, 5, tzinfo=UTC), 0xD51CABF019BBB5E8),
    (pl.Decimal(10, 2), Decimal("-1.25"), 0x7EF5C8A7D71CCF48),
    (pl.String(), None, 42),
]


@pytest.mark.parametrize(("dtype", "value", "expected"), VECTORS)
def test_vectors(dtype: pl.DataType, value: object, expected: int) -> None:
    frame = pl.DataFrame({"k": pl.Series([value], dtype=dtype)})
    assert key_hash(frame, ["k"]).tolist() == [expected]


def test_vectors_of_several_columns() -> None:
    frame = pl.DataFrame({"a": ["EWR", None], "b": pl.Series([7, None], dtype=pl.Int64)})
    assert key_hash(frame, ["a", "b"]).tolist() == [0x3BF9F2CF7AFC3E27, 0xA092F330C19FF2DE]
    assert key_hash(frame, ["b", "a"]).tolist() == [0xA6EAC03B3204EDB7, 0xA092F330C19FF2DE]
    assert key_groups(frame, ["a", "b"], 128).tolist() == [39, 94]


def test_equal_floats_hash_alike() -> None:
    other_nan = np.array([0xFFF0000000000001], dtype=np.uint64).view(np.float64)[0]
    frame = pl.DataFrame({"k": [0.0, -0.0, nan, float(other_nan)]})
    zero, minus_zero, quiet, payload = key_hash(frame, ["k"]).tolist()
    assert zero == minus_zero
    assert quiet == payload


def test_narrow_types_hash_as_wide_ones() -> None:
    narrow = pl.DataFrame({"i": pl.Series([-5, 9], dtype=pl.Int32), "f": pl.Series([0.5, -2.0], dtype=pl.Float32)})
    wide = narrow.cast({"i": pl.Int64, "f": pl.Float64})
    assert key_hash(narrow, ["i", "f"]).tolist() == key_hash(wide, ["i", "f"]).tolist()


@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_nested_columns_are_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"column 'k' of type .* cannot be a key"):
        key_hash(pl.DataFrame({"k": [value]}), ["k"])


def test_hashing_leaves_the_frame_alone() -> None:
    frame = pl.DataFrame({"f": [-0.0, nan], "i": [1, 2]})
    before = frame.clone()
    key_hash(frame, ["f", "i"])
    assert str(frame["f"].to_list()) == str(before["f"].to_list())


@pytest.mark.parametrize("max_parallelism", [1, 2, 100, 128, 32768])
def test_groups_are_the_hash_modulo_max_parallelism(max_parallelism: int) -> None:
    frame = pl.DataFrame({"k": range(500)})
    expected = [value % max_parallelism for value in key_hash(frame, ["k"]).tolist()]
    groups = key_groups(frame, ["k"], max_parallelism)
    assert groups.dtype == np.int32
    assert groups.tolist() == expected
