"""The blobs that Spark shuffles: opaque bytes with a small header that names sender and destination. Pure.

    header   kind u8 | level u16 | partition u32 | edge u16 | sender u32 | number u32      little-endian, 17 bytes
    ROWS     an Arrow IPC stream of one batch with its hidden columns; `number` counts a sender's blobs for its target
    PARTIALS u8 1 where their rows had order columns, then each part: u64 length, Arrow IPC stream; numbered with ROWS
    TRAILER  i64 watermark of the sender (epoch ms); `number`: how many blobs it has sent to this target
    REPORT   JSON of what a task did, for the driver

A blob passes from level to level until it reaches its own (`headrace.spark.levels.levels`).
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from enum import IntEnum

import polars as pl

from headrace.operators.aggregation.combining import Partials

_HEADER = struct.Struct("<BHIHII")
_WATERMARK = struct.Struct("<q")
_LENGTH = struct.Struct("<Q")


class Kind(IntEnum):
    """The content of a blob."""

    ROWS = 1
    TRAILER = 2
    REPORT = 3
    PARTIALS = 4


@dataclass(frozen=True, slots=True)
class Envelope:
    """A blob. `level`, `partition`: its destination; `edge`: index in the plan; `sender`: partition of that edge's
    task, counted from 0 within the task.
    """

    kind: Kind
    level: int
    partition: int
    payload: bytes
    edge: int = 0
    sender: int = 0
    number: int = 0

    def pack(self) -> bytes:
        """Returns header and payload as bytes."""
        head = _HEADER.pack(self.kind, self.level, self.partition, self.edge, self.sender, self.number)
        return head + self.payload

    @staticmethod
    def unpack(data: bytes) -> Envelope:
        """The inverse of `pack`."""
        kind, level, partition, edge, sender, number = _HEADER.unpack_from(data)
        return Envelope(Kind(kind), level, partition, data[_HEADER.size :], edge, sender, number)


def destination(data: bytes) -> tuple[int, int]:
    """Returns level and partition of the destination of packed bytes."""
    _, level, partition, *_ = _HEADER.unpack_from(data)
    return level, partition


def encode_rows(batch: pl.DataFrame) -> bytes:
    """Returns a batch as an Arrow IPC stream."""
    stream = io.BytesIO()
    batch.write_ipc_stream(stream, compression="uncompressed")
    return stream.getvalue()


def decode_rows(payload: bytes) -> pl.DataFrame:
    """The inverse of `encode_rows`."""
    return pl.read_ipc_stream(io.BytesIO(payload))


def encode_partials(partials: Partials) -> bytes:
    """Returns partial aggregates as bytes, part by part."""
    pieces = [bytes([partials.ordered])]
    for part in partials.parts:
        data = encode_rows(part)
        pieces += [_LENGTH.pack(len(data)), data]
    return b"".join(pieces)


def decode_partials(payload: bytes) -> Partials:
    """The inverse of `encode_partials`."""
    parts: list[pl.DataFrame] = []
    at = 1
    while at < len(payload):
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size + length
        parts.append(decode_rows(payload[at - length : at]))
    return Partials(tuple(parts), bool(payload[0]))


def encode_watermark(watermark: int) -> bytes:
    """Returns the payload of a trailer."""
    return _WATERMARK.pack(watermark)


def decode_watermark(payload: bytes) -> int:
    """The inverse of `encode_watermark`."""
    (watermark,) = _WATERMARK.unpack(payload)
    return int(watermark)
