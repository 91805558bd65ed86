"""Rows of a batch with several schemas are those of its messages one by one, in their order."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Decoded, Messages
from headrace.core.arrow_arrays import binary_array
from headrace.core.types import schema_of
from headrace.formats.json.decode import json_decoder
from headrace.formats.registry.frames import frame_head, read_frames
from headrace.formats.registry.merging import merged

SCHEMA = schema_of({"n": "int64"})
DECODER = json_decoder(SCHEMA)
PAYLOADS = st.one_of(st.integers(-9, 9).map(lambda n: b'{"n": %d}' % n), st.just(b'{"n": "x"}'))
VALUES = st.one_of(
    st.tuples(st.sampled_from([frame_head(1), frame_head(2), frame_head(300)]), PAYLOADS).map(b"".join),
    st.sampled_from([b"", b"\0\0", None]),
)


def decoded(values: list[bytes | None]) -> Decoded:
    frames = read_frames(binary_array(values))
    return merged(frames, [_decoded(group.payloads) for group in frames.groups], SCHEMA.empty())


def _decoded(payloads: pa.Array) -> Decoded:
    return DECODER.decode(Messages(payloads))


@given(st.lists(VALUES, max_size=30))
def test_a_batch_gives_what_its_messages_give(values: list[bytes | None]) -> None:
    whole, singles = decoded(values), [decoded([value]) for value in values]
    assert whole.rows.equals(pl.concat([SCHEMA.empty(), *(each.rows for each in singles)]))
    assert whole.bad.tolist() == [index for index, each in enumerate(singles) if len(each.bad)]
    assert whole.reasons == tuple(reason for each in singles for reason in each.reasons)
    assert whole.skipped == values.count(None)
    good = [index for index, each in enumerate(singles) if each.rows.height]
    assert (whole.good is None and len(good) == len(values)) or whole.good is not None
    assert whole.good is None or whole.good.tolist() == good


def test_a_batch_of_one_schema_keeps_its_rows_as_they_are() -> None:
    whole = decoded([frame_head(1) + b'{"n": 1}'] * 3)
    assert whole.good is None
    assert whole.rows["n"].to_list() == [1, 1, 1]
