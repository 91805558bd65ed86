"""The codec of the exchange: encodes batches, signals, credits and goodbyes as frames, and decodes them. Knows neither
sockets nor threads.

    frame    channel u32 | type u8 | 3 x 0 | length u32 | payload        little-endian, 12 bytes before the payload

    OPEN       JSON {task, channel}: from now on the frame's channel number refers to that channel of the task's mailbox
    SCHEMA     Arrow IPC schema message; before the first DATA of a channel, and again when columns change
    DATA       Arrow IPC record batch message, uncompressed, of the batch with its hidden columns
    WATERMARK  i64 epoch ms      BARRIER  u64 epoch      END  -
    CREDIT     4 x u64: rows and bytes that the reader took since the channel was opened, bounds in rows and bytes
    PING  -    CANCEL  - the sender's attempt is being torn down      BYE  - nothing follows, on purpose

Rows dominate the cost. A kernel gathers them into the message in one pass, with their strings, and polars imports the
columns from the received buffer without a copy. What the kernel does not write (nested types), polars exports to Arrow;
a batch with much larger buffers than rows, as a slice of gathered strings has, is compacted by polars' IPC writer.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass
from enum import IntEnum

import polars as pl
import pyarrow as pa

from headrace.core.errors import InternalError
from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.exchange.edge.adaptive_bounds import ChannelBounds
from headrace.exchange.edge.rows import Rows
from headrace.kernels.arrow_message import ArrowMessageWriter

HEADER = struct.Struct("<IB3xI")
PAYLOAD_MAX = 1 << 30
"""Largest payload in bytes: a longer one is not a valid frame. Outlets split batches far below that."""
_CONTROL_MAX = 64 * 1024
_WATERMARK, _BARRIER, _CREDIT = struct.Struct("<q"), struct.Struct("<Q"), struct.Struct("<4Q")
_WASTE_MIN_BYTES = 16 * 1024

Buffer = bytes | memoryview


class FrameType(IntEnum):
    """The type of a frame."""

    OPEN = 1
    SCHEMA = 2
    DATA = 3
    WATERMARK = 4
    BARRIER = 5
    END = 6
    CREDIT = 7
    PING = 8
    CANCEL = 9
    BYE = 10


_LARGE = frozenset({FrameType.SCHEMA, FrameType.DATA})


@dataclass(frozen=True, slots=True)
class Header:
    """The validated header of a frame. `length`: of the payload in bytes."""

    channel: int
    type: FrameType
    length: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame to send."""

    type: FrameType
    payload: Buffer = b""


@dataclass(frozen=True, slots=True)
class Credit:
    """The reader's progress on a channel, in totals since it was opened, and the bounds of rows in flight to it."""

    rows: int
    bytes: int
    bounds: ChannelBounds


@dataclass(frozen=True, slots=True)
class ChannelName:
    """A channel of the mailbox of a task's subtask in the peer's slot."""

    task: str
    channel: int


def encode_header(channel: int, frame: Frame) -> bytes:
    """The 12 bytes before the payload."""
    length = len(frame.payload)
    if length > PAYLOAD_MAX:
        raise InternalError(f"a frame of {length:,} bytes is larger than {PAYLOAD_MAX:,}: one row is too large to send")
    return HEADER.pack(channel, frame.type, length)


def decode_header(data: Buffer) -> Header:
    """Decodes the 12 bytes before a payload. Raises InternalError for an invalid header."""
    channel, number, length = HEADER.unpack(data)
    try:
        kind = FrameType(number)
    except ValueError as error:
        raise InternalError(f"malformed frame: type {number} is none of ours") from error
    if length > (PAYLOAD_MAX if kind in _LARGE else _CONTROL_MAX):
        raise InternalError(f"malformed frame: {length:,} bytes of {kind.name}")
    return Header(channel, kind, length)


# ---- signals, credits, opened channels -------------------------------------------------------------------------------


def encode_signal(signal: Signal) -> Frame:
    """A signal as a frame."""
    match signal:
        case Watermark(ts):
            return Frame(FrameType.WATERMARK, _WATERMARK.pack(ts))
        case Barrier(epoch):
            return Frame(FrameType.BARRIER, _BARRIER.pack(epoch))
        case EndOfInput():
            return Frame(FrameType.END)


def decode_signal(kind: FrameType, payload: Buffer) -> Signal | None:
    """The signal in a frame, or None for other frame types."""
    match kind:
        case FrameType.WATERMARK:
            return Watermark(_numbers(_WATERMARK, kind, payload)[0])
        case FrameType.BARRIER:
            return Barrier(_numbers(_BARRIER, kind, payload)[0])
        case FrameType.END:
            return EndOfInput()
        case _:
            return None


def encode_credit(credit: Credit) -> Frame:
    """A credit as a frame."""
    bounds = credit.bounds
    return Frame(FrameType.CREDIT, _CREDIT.pack(credit.rows, credit.bytes, bounds.rows_max, bounds.bytes_max))


def decode_credit(payload: Buffer) -> Credit:
    """The credit in a frame."""
    rows, size, rows_max, bytes_max = _numbers(_CREDIT, FrameType.CREDIT, payload)
    return Credit(rows, size, ChannelBounds(rows_max=rows_max, bytes_max=bytes_max))


def encode_open(name: ChannelName) -> Frame:
    """The frame that assigns a number to a channel."""
    return Frame(FrameType.OPEN, json.dumps({"task": name.task, "channel": name.channel}).encode())


def decode_open(payload: Buffer) -> ChannelName:
    """The channel that a number refers to."""
    try:
        match json.loads(bytes(payload)):
            case {"task": str(task), "channel": int(channel)} if channel >= 0:
                return ChannelName(task, channel)
    except ValueError as error:
        raise InternalError("malformed frame: OPEN is no JSON") from error
    raise InternalError("malformed frame: OPEN names no channel")


def _numbers(shape: struct.Struct, kind: FrameType, payload: Buffer) -> tuple[int, ...]:
    if len(payload) != shape.size:
        raise InternalError(f"malformed frame: {kind.name} has {len(payload)} bytes, not {shape.size}")
    return shape.unpack(payload)


# ---- rows ------------------------------------------------------------------------------------------------------------


class BatchEncoder:
    """Encodes batches of one channel as frames; remembers the columns that the reader knows."""

    def __init__(self) -> None:
        self._columns: pl.Schema | int | None = None
        self._writer = ArrowMessageWriter()

    def encode(self, rows: Rows) -> list[Frame]:
        """DATA, preceded by SCHEMA if the columns differ from those of the previous batch.

        The payload of DATA is valid until the next call.
        """
        # once for the kernel and for what it leaves to Arrow
        rows = Rows(rows.batch.rechunk(), rows.order, rows.bytes)
        batch = rows.batch
        message = self._writer.write(batch, rows.order)
        # the kernel's digest costs a tenth of a schema
        columns = batch.schema if message is None else message.columns
        data = Frame(FrameType.DATA, _serialized(rows.gathered()) if message is None else message.data)
        if columns == self._columns:
            return [data]
        self._columns = columns
        return [Frame(FrameType.SCHEMA, memoryview(_record_batch(batch.clear())[1].serialize())), data]


def _serialized(batch: pl.DataFrame) -> memoryview:
    record, _ = _record_batch(batch)
    if pa.ipc.get_record_batch_size(record) > 2 * int(batch.estimated_size()) + _WASTE_MIN_BYTES:
        return _compact(batch)
    return memoryview(record.serialize())


def _record_batch(batch: pl.DataFrame) -> tuple[pa.RecordBatch, pa.Schema]:
    if batch.n_chunks() > 1:
        batch = batch.rechunk()
    reader = pa.RecordBatchReader.from_stream(batch)
    records = list(reader)
    if len(records) == 1:
        return records[0], reader.schema
    assert not records, "a batch of one chunk is one record batch"
    schema = reader.schema
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema), schema


def _compact(batch: pl.DataFrame) -> memoryview:
    """The record batch message from polars' IPC stream: schema message, record batch message, end of stream."""
    stream = io.BytesIO()
    batch.write_ipc_stream(stream, compression="uncompressed")
    written = stream.getbuffer()
    # skip the schema message: 0xFFFFFFFF, u32 length of metadata with padding, metadata; it has no body (Arrow IPC
    # format)
    return written[8 + int.from_bytes(written[4:8], "little") :]


class BatchDecoder:
    """The counterpart of a BatchEncoder."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None

    def on_schema(self, payload: Buffer) -> None:
        """Sets the columns of the batches that follow."""
        try:
            self._schema = pa.ipc.read_schema(pa.py_buffer(payload))
        except (pa.ArrowException, EOFError, OSError, ValueError) as error:
            raise InternalError(f"malformed frame: SCHEMA is no Arrow schema ({error})") from error

    def decode(self, payload: Buffer) -> pl.DataFrame:
        """The batch of a DATA frame. The batch refers to `payload`, which must not be modified, and must be aligned to
        64 bytes."""
        if self._schema is None:
            raise InternalError("malformed stream: DATA before SCHEMA")
        try:
            record = pa.ipc.read_record_batch(pa.py_buffer(payload), self._schema)
            record.validate()
            return pl.DataFrame(record)
        except (pa.ArrowException, EOFError, OSError, ValueError, pl.exceptions.PolarsError) as error:
            raise InternalError(f"malformed frame: DATA is no record batch of its columns ({error})") from error
