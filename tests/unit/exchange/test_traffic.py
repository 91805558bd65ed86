"""Bytes of messages are those of their values."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from headrace.exchange.traffic import payload_bytes

TYPES = [pa.binary(), pa.large_binary()]
Values = st.lists(st.binary(max_size=40), max_size=30)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(values=Values)
def test_offsets_are_left_out(kind: pa.DataType, values: list[bytes]) -> None:
    assert payload_bytes(pa.array(values, kind)) == sum(map(len, values))


@given(values=Values, begin=st.integers(0, 30))
def test_a_slice_counts_its_own_values(values: list[bytes], begin: int) -> None:
    assert payload_bytes(pa.array(values, pa.large_binary()).slice(begin)) == sum(map(len, values[begin:]))


@given(values=st.lists(st.text(max_size=20), max_size=30))
def test_text(values: list[str]) -> None:
    assert payload_bytes(pa.array(values, pa.large_string())) == sum(len(each.encode()) for each in values)
