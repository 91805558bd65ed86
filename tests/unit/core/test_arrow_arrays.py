"""Arrays from buffers are what pyarrow's own conversions make."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.arrow_arrays import binary_array, mask_of, number_array


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64, np.float64])
def test_numbers(dtype: type[np.number]) -> None:
    values = np.arange(10).astype(dtype)
    for part in (values, values[3:7], values[::2], values[:0]):
        assert number_array(part).equals(pa.array(part))


@given(st.lists(st.none() | st.binary(max_size=5), max_size=20))
def test_byte_strings(values: list[bytes | None]) -> None:
    made = binary_array(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))


@given(st.lists(st.none() | st.integers(0, 9), max_size=20))
def test_masks(values: list[int | None]) -> None:
    whole = pa.array(values, pa.int64())
    assert mask_of(whole.is_null()).tolist() == [value is None for value in values]
    assert mask_of(whole[3:].is_valid()).tolist() == [value is not None for value in values[3:]]
