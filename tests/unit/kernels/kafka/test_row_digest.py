"""The kernel's digest is that of `core.digest`, whatever the lengths, types and slices of the columns."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import digest
from headrace.kernels.kafka.row_digest import digest_of
from headrace.kernels.library import KERNELS_VARIABLE, is_loaded, library
from support.kernels.guarded_inputs import TYPES, guarded_column

VALUES = st.none() | st.text(max_size=20).map(str.encode)
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=30)
BEFORE = st.lists(VALUES, max_size=12)
LENGTHS = [*range(260), 319, 320, 321, *(block * 1024 + more for block in (1, 2, 9) for more in (-1, 0, 1, 63, 64, 65))]
"""Every length at which XXH3 takes another way, and the lengths around blocks of 1,024 bytes."""


@pytest.fixture
def kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact way must not be asked."""
    monkeypatch.setattr(digest, "digest_of", None)


@pytest.mark.parametrize("length", LENGTHS)
def test_values_of_every_length(length: int) -> None:
    value = Random(length).randbytes(length)
    column = guarded_column([value], pa.large_binary())
    expected = digest.digest_of(pa.array([value], pa.large_binary()))
    assert digest_of(column) == expected
    as_key = digest.digest_of(pa.array([b"v"], pa.large_binary()), pa.array([value], pa.large_binary()))
    assert digest_of(pa.array([b"v"], pa.binary()), column) == as_key


@given(ROWS, BEFORE, BEFORE, st.sampled_from(TYPES), st.sampled_from(TYPES), st.booleans())
def test_columns_of_every_type_and_slices(
    rows: list[tuple[bytes | None, bytes | None]],
    before_values: list[bytes | None],
    before_keys: list[bytes | None],
    value_type: pa.DataType,
    key_type: pa.DataType,
    keyed: bool,
) -> None:
    values, keys = [value for value, _ in rows], [key for _, key in rows]
    columns = guarded_column(values, value_type, before_values), guarded_column(keys, key_type, before_keys)
    plain = pa.array(values, pa.large_binary()), pa.array(keys, pa.large_binary())
    assert digest_of(*columns[: 1 + keyed]) == digest.digest_of(*plain[: 1 + keyed])


@pytest.mark.usefixtures("kernel_alone")
def test_the_kernel_is_used() -> None:
    assert is_loaded()
    assert digest_of(pa.array(["text"], pa.string()), pa.array([None], pa.binary())) != 0
    assert digest_of(pa.array([], pa.large_binary())) == 0


def test_sums_of_many_rows_wrap_as_those_of_python() -> None:
    values = pa.array([b"%d" % number for number in range(20_000)], pa.large_binary())
    assert digest_of(values) == digest.digest_of(values)


def test_columns_of_other_types_take_the_exact_way() -> None:
    texts = ["a", None, "a text that no view holds within itself"]
    viewed, whole = pa.array(texts, pa.string_view()), pa.array(texts, pa.large_string())
    assert digest_of(viewed) == digest_of(whole) == digest.digest_of(whole)
    assert digest_of(whole, viewed) == digest_of(whole, whole)


def test_without_kernels_the_digest_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.array([b"a", None], pa.large_binary())
    expected = digest_of(column, column)
    monkeypatch.setenv(KERNELS_VARIABLE, "off")
    library.cache_clear()
    try:
        assert not is_loaded()
        assert digest_of(column, column) == expected
    finally:
        library.cache_clear()


@pytest.mark.parametrize("middle", [5, -1, 2**40])
def test_offsets_outside_the_data_are_not_followed(middle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow looks at the first one and the last one only."""
    monkeypatch.setattr(digest, "digest_of", lambda *_: -1)
    offsets = pa.py_buffer(np.array([0, middle, 4], np.int64))
    column = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, pa.py_buffer(b"four")])
    assert digest_of(column) == -1
