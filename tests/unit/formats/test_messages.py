"""Messages as Arrow columns: which layouts decoders get to see, and which messages they leave out."""

from __future__ import annotations

import pyarrow as pa

from headrace.formats.messages import live_messages


def test_views_become_columns_that_hold_any_number_of_bytes() -> None:
    # views may share their bytes: as a plain column they take more than `nbytes` says, perhaps more than 2 GiB
    live, index = live_messages(pa.array([b"a message that is longer than a view", None, b"x"], pa.binary_view()))
    assert live.type == pa.large_binary()
    assert live.to_pylist() == [b"a message that is longer than a view", b"x"]
    assert index is not None
    assert index.tolist() == [0, 2]


def test_plain_columns_stay_as_they_are() -> None:
    whole = pa.array([b"x", b"y"], pa.binary())
    live, index = live_messages(whole)
    assert live is whole
    assert index is None
