"""The kernel that writes record batch messages: pyarrow reads what polars gathers, and nothing else is written."""

from __future__ import annotations

from ctypes import byref, c_int64, c_uint64, c_void_p

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pytest

from headrace.kernels.arrow_columns import stream_address
from headrace.kernels.arrow_message import ArrowMessageWriter
from headrace.kernels.library import kernel
from support.kernels.guarded import guarded_copy

TEXTS = ["", "short", None, "x" * 12, "y" * 13, "z" * 16, "u" * 32, "v" * 33, "w" * 5_000]
FRAME = pl.DataFrame(
    {
        "text": TEXTS,
        "flag": [True, None, False] * 3,
        "n": pl.Series([1, -1, None] * 3, dtype=pl.Int16),
        "price": pl.Series([*range(8), None]).cast(pl.Decimal(38, 9)),
    }
)


def rows_of(*numbers: int) -> npt.NDArray[np.uint32]:
    return np.array(numbers, np.uint32)


def read(frame: pl.DataFrame, message: memoryview | bytes) -> pl.DataFrame:
    """What pyarrow reads, all of it validated."""
    record = pa.ipc.read_record_batch(pa.py_buffer(bytes(message)), pa.RecordBatchReader.from_stream(frame[:0]).schema)
    record.validate(full=True)
    return pl.DataFrame(record)


def written(frame: pl.DataFrame, rows: npt.NDArray[np.uint32] | None) -> memoryview:
    message = ArrowMessageWriter().write(frame, rows)
    assert message is not None
    return message.data


@pytest.mark.parametrize("rows", [None, rows_of(), rows_of(8), rows_of(7, 2, 5, 0), rows_of(*range(9))])
@pytest.mark.parametrize("begin", [0, 1, 8])
def test_a_message_holds_the_chosen_rows(rows: npt.NDArray[np.uint32] | None, begin: int) -> None:
    frame = pl.concat([FRAME] * 2, rechunk=True)[begin:]
    expected = frame if rows is None else frame[rows.tolist()]
    assert read(frame, written(frame, rows)).equals(expected)


def test_many_rows_and_columns_of_every_width() -> None:
    count = 10_000
    random = np.random.default_rng(1)
    integers = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
    frame = pl.DataFrame(
        [
            *(pl.Series(str(dtype), random.integers(0, 100, count)).cast(dtype) for dtype in integers),
            pl.Series("text", [f"{n:030}" if n % 3 else None for n in range(count)]),
            pl.Series("real", random.random(count)),
        ]
    )
    rows = random.permutation(count)[: count // 2].astype(np.uint32)
    assert read(frame, written(frame, rows)).equals(frame[pl.Series(rows)])


def test_the_buffers_of_a_body_are_aligned() -> None:
    message = bytes(written(FRAME, None))
    assert len(message) % 64 == 0
    assert (8 + int.from_bytes(message[4:8], "little")) % 64 == 0


def test_a_message_has_only_the_texts_of_its_rows() -> None:
    assert len(written(FRAME, rows_of(0, 1, 2))) < 1_024 < len(written(FRAME, rows_of(8)))


def test_messages_of_the_same_columns_have_the_same_digest() -> None:
    writer = ArrowMessageWriter()
    frames = [FRAME, FRAME[3:], FRAME.rename({"n": "m"}), FRAME.reverse(), FRAME.cast({"n": pl.Int32})]
    frames.append(FRAME.select(reversed(FRAME.columns)))
    digests = [message.columns for frame in frames if (message := writer.write(frame, None)) is not None]
    assert len(digests) == len(frames)
    assert digests[0] == digests[1] == digests[3]
    assert len(set(digests)) == 4


def test_what_does_not_fit_is_not_written() -> None:
    size = len(written(FRAME, None))
    for capacity in (0, 1, size - 1):
        memory = bytearray(b"?" * size)
        assert call(FRAME, None, FRAME.height, pa.py_buffer(memory).address, capacity) == size
        assert memory == b"?" * size
    fence = guarded_copy(b"?" * size)
    assert call(FRAME, None, FRAME.height, fence.address, size) == size
    assert read(FRAME, fence.read()).equals(FRAME)


def call(frame: pl.DataFrame, rows: npt.NDArray[np.uint32] | None, count: int, address: int, capacity: int) -> int:
    write = kernel("headrace_arrow_message", c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p)
    chosen = None if rows is None else rows.ctypes.data
    capsule = frame.__arrow_c_stream__()
    size: int = write(stream_address(capsule), chosen, count, address, capacity, byref(c_uint64()))
    return size


@pytest.mark.parametrize("rows", [rows_of(9), rows_of(0, 2**32 - 1)])
def test_rows_that_there_are_not_are_refused(rows: npt.NDArray[np.uint32]) -> None:
    assert call(FRAME, rows, len(rows), 0, 0) == -1
    assert call(FRAME, None, 10, 0, 0) == -1


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1]]),
        pl.Series([{"a": 1}]),
        pl.Series([None], dtype=pl.Null),
        pl.Series(["a"], dtype=pl.Categorical()),
        pl.Series(["a"], dtype=pl.Enum(["a"])),
        pl.Series([[1]], dtype=pl.Array(pl.Int8, 1)),
    ],
)
def test_other_types_are_left_to_others(column: pl.Series) -> None:
    assert ArrowMessageWriter().write(pl.DataFrame({"a": [1], "other": column}), None) is None


def test_more_columns_than_a_message_has_room_for_are_left_to_others() -> None:
    widest = pl.DataFrame({f"c{n}": ["x" * 13] for n in range(256)})
    assert read(widest, written(widest, None)).equals(widest)
    assert ArrowMessageWriter().write(pl.DataFrame({f"c{n}": [n] for n in range(257)}), None) is None


def test_without_kernels_there_is_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.kernels.arrow_message.is_loaded", lambda: False)
    assert ArrowMessageWriter().write(FRAME, None) is None


def test_a_large_message_does_not_keep_its_memory() -> None:
    writer = ArrowMessageWriter()
    before = pa.total_allocated_bytes()
    message = writer.write(large := pl.DataFrame({"n": range(1_000_000)}), None)
    assert message is not None
    assert read(large, message.data).equals(large)
    del message
    assert pa.total_allocated_bytes() - before < 1 << 20
