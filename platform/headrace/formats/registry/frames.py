"""Confluent's framing of messages: reads the schema ids of a batch and cuts the payloads out, a column at a time. Pure.

    00 | id, 4 bytes big-endian | payload          in the message
    01 | GUID, 16 bytes         | payload          in the message
    either of them              beside the payload in header `__value_schema_id` or `__key_schema_id`, which comes first

Protobuf's message indexes follow the id. A payload may have any length, also none. Frames of AWS Glue and of Apicurio's
own serializers are recognised and are bad, with a reason that names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.format import Side
from headrace.core.arrow_arrays import BINARY_BYTES_MAX
from headrace.formats.messages import Indices, live_messages, take
from headrace.formats.registry.byte_spans import ByteSpans, Positions
from headrace.formats.registry.message_indexes import MessagePath, index_bytes, read_indexes
from headrace.formats.registry.schemas import ID_MAX, SchemaId, guid_text

HEADERS = {"value": "__value_schema_id", "key": "__key_schema_id"}
"""Confluent's header for each side."""
_APICURIO_IDS = ("globalId", "contentId", "contentHash", "artifactId")

_ID_MAGIC, _GUID_MAGIC, _GLUE_MAGIC = 0, 1, 3
_ID_BYTES, _GUID_BYTES, _GLUE_BYTES, _APICURIO_BYTES = 5, 17, 18, 9
_GLUE_COMPRESSIONS = (0, 5)

GLUE = "framed for AWS Glue Schema Registry, not for Confluent's: use Confluent's serializer"
APICURIO = (
    "framed by Apicurio's own serializer (id of 8 bytes), not as Confluent's: set apicurio.registry.id-handler to "
    "io.apicurio.registry.serde.Legacy4ByteIdHandler, or use Confluent's serializer"
)
APICURIO_HEADERS = "framed by Apicurio's own headers, not as Confluent's: set apicurio.registry.headers.enabled=false"
_NO_INDEXES = "the message indexes behind its schema id are broken"


@dataclass(frozen=True, slots=True)
class FrameGroup:
    """Messages of one schema.

    schema    its id
    message   which message of the schema, for Protobuf; None: frames were read without message indexes
    index     indices of the messages in the batch, growing
    payloads  Arrow binary or large_binary without NULLs, of the length of `index`
    """

    schema: SchemaId
    message: MessagePath | None
    index: Indices
    payloads: pa.Array


@dataclass(slots=True)
class Frames:
    """The frames of n messages. Groups and bad messages hold each of them once, but for tombstones.

    groups   at least one for each schema and message; several, if their frames have different lengths
    bad      index of each bad message -> reason
    skipped  number of tombstones
    """

    groups: list[FrameGroup] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    skipped: int = 0

    @property
    def schemas(self) -> tuple[SchemaId, ...]:
        """The ids of all groups, each once."""
        return tuple(dict.fromkeys(group.schema for group in self.groups))


def read_frames(
    values: pa.Array, headers: pl.Series | None = None, *, side: Side = "value", with_messages: bool = False
) -> Frames:
    """Reads the frames of a batch.

    values         Arrow binary, large_binary or binary_view; NULL is a tombstone
    headers        of the records, list<struct{key: string, value: binary}>; None: ids stand in the messages
    with_messages  Protobuf's: message indexes follow the ids
    """
    live, index = live_messages(values)
    batch = np.arange(len(values)) if index is None else index
    reading = _Reading(live, batch, with_messages, Frames(skipped=len(values) - len(live)))
    heads = ByteSpans.of(live)
    named = None if headers is None else _header_frames(headers, side)
    if named is None:
        reading.prefixes(heads, np.arange(len(live)))
    else:
        rows = reading.headers(named, HEADERS[side], len(values))
        reading.prefixes(heads.at(rows), rows)
    return reading.frames


def frame_head(schema: int, message: Sequence[int] | None = None) -> bytes:
    """The bytes in front of the payloads of a schema; `message`: its path, for Protobuf."""
    return bytes([_ID_MAGIC]) + schema.to_bytes(4, "big") + (b"" if message is None else index_bytes(message))


class _Reading:
    """Fills `frames` from one batch. live: its messages without tombstones; batch: the index of each in the batch."""

    def __init__(self, live: pa.Array, batch: Indices, with_messages: bool, frames: Frames) -> None:  # noqa: FBT001
        self._live = live
        self._batch = batch
        self._with_messages = with_messages
        self.frames = frames

    def prefixes(self, spans: ByteSpans, rows: Positions) -> None:
        """Reads frames in the messages: a span for each of the live messages `rows`."""
        if len(rows):
            self._read(spans, rows, "", in_message=True)

    def headers(self, named: _HeaderFrames, header: str, total: int) -> Positions:
        """Reads frames in headers of a batch of `total` messages; returns the live messages without."""
        # -1: a tombstone, which may have a header, too
        rows_of = np.full(total, -1)
        rows_of[self._batch] = np.arange(len(self._batch))
        rows = rows_of[named.framed]
        live = np.flatnonzero(rows >= 0)
        if len(live):
            self._read(ByteSpans.of(named.values).at(live), rows[live], f"header {header}: ", in_message=False)
        foreign = named.apicurio[rows_of[named.apicurio] >= 0]
        self.frames.bad.update(dict.fromkeys(foreign.tolist(), APICURIO_HEADERS))
        rows_of[named.framed] = rows_of[named.apicurio] = -1
        return rows_of[rows_of >= 0]

    def _read(self, spans: ByteSpans, rows: Positions, place: str, *, in_message: bool) -> None:
        lengths = spans.lengths
        heads = spans.heads(_ID_BYTES)
        # without meaning for shorter spans, which frame nothing
        magic = heads[:, 0]
        numbers = np.ascontiguousarray(heads[:, 1:]).view(">u4")[:, 0].astype(np.int64)
        is_number = (magic == _ID_MAGIC) & (lengths >= _ID_BYTES) & (numbers > 0) & (numbers <= ID_MAX)
        is_guid = (magic == _GUID_MAGIC) & (lengths >= _GUID_BYTES)
        self._report(spans, rows, np.flatnonzero(~(is_number | is_guid)), place)
        numbered = _chosen(is_number)
        if len(numbered):
            ids, codes = _distinct_numbers(numbers[numbered])
            self._group(spans.at(numbered), rows[numbered], ids, codes, _ID_BYTES, in_message=in_message)
        named = np.flatnonzero(is_guid)
        if len(named):
            guids, codes = _distinct_guids(spans.at(named).heads(_GUID_BYTES)[:, 1:])
            self._group(spans.at(named), rows[named], guids, codes, _GUID_BYTES, in_message=in_message)

    def _group(
        self,
        spans: ByteSpans,
        rows: Positions,
        schemas: Sequence[SchemaId],
        codes: Positions,
        id_bytes: int,
        *,
        in_message: bool,
    ) -> None:
        """Adds the groups of messages whose schemas are `schemas[codes]`."""
        paths: tuple[MessagePath | None, ...] = (None,)
        skips = np.full(len(rows), id_bytes)
        keys = codes
        if self._with_messages:
            indexes = read_indexes(ByteSpans(spans.data, spans.begins + id_bytes, spans.ends))
            self.frames.bad.update(dict.fromkeys(self._batch[rows[indexes.codes < 0]].tolist(), _NO_INDEXES))
            good = _chosen(indexes.codes >= 0)
            paths, rows = indexes.paths, rows[good]
            skips = (indexes.ends - spans.begins)[good]
            keys = codes[good] * len(paths) + indexes.codes[good]
        # frames of one schema and message may differ in length: a number can be written with more bytes than it needs
        longest = int(skips.max(initial=0)) + 1
        for members in _split(keys * longest + skips):
            key, skip = int(keys[members[0]]), int(skips[members[0]]) if in_message else 0
            chosen = rows[members]
            schema, path = schemas[key // len(paths)], paths[key % len(paths)]
            self.frames.groups.append(FrameGroup(schema, path, self._batch[chosen], self._payloads(chosen, skip)))

    def _payloads(self, rows: Positions, skip: int) -> pa.Array:
        messages = self._live if len(rows) == len(self._live) else take(self._live, rows)
        return pc.binary_slice(messages, skip, BINARY_BYTES_MAX) if skip else messages

    def _report(self, spans: ByteSpans, rows: Positions, bad: Positions, place: str) -> None:
        for begin, end, index in zip(spans.begins[bad], spans.ends[bad], self._batch[rows[bad]], strict=True):
            head = spans.data[begin : min(end, begin + _GLUE_BYTES)].tobytes()
            self.frames.bad[int(index)] = place + _reason(head)


def _reason(head: bytes) -> str:
    """Why these first bytes of a message frame nothing."""
    if not head:
        return "no bytes, so no schema id"
    magic = head[0]
    if magic == _GLUE_MAGIC and len(head) >= _GLUE_BYTES and head[1] in _GLUE_COMPRESSIONS:
        return GLUE
    if magic == _ID_MAGIC and len(head) >= _ID_BYTES:
        number = int.from_bytes(head[1:_ID_BYTES], "big")
        if not number and len(head) >= _APICURIO_BYTES and any(head[_ID_BYTES:_APICURIO_BYTES]):
            return APICURIO
        return f"its schema id is {number}, which no schema has"
    if magic in (_ID_MAGIC, _GUID_MAGIC):
        return f"cut off in its schema id: {len(head)} of {_GUID_BYTES if magic else _ID_BYTES} bytes"
    return f"begins with byte 0x{magic:02x}, not with a schema id (0x00 or 0x01)"


def _chosen(mask: npt.NDArray[np.bool_]) -> Positions:
    return np.arange(len(mask)) if mask.all() else np.flatnonzero(mask)


def _distinct_numbers(numbers: Positions) -> tuple[list[SchemaId], Positions]:
    if (numbers == numbers[0]).all():
        return [int(numbers[0])], np.zeros(len(numbers), np.int64)
    ids, codes = np.unique(numbers, return_inverse=True)
    return ids.tolist(), codes


def _distinct_guids(guids: npt.NDArray[np.uint8]) -> tuple[list[SchemaId], Positions]:
    if (guids == guids[0]).all():
        return [guid_text(guids[0].tobytes())], np.zeros(len(guids), np.int64)
    # void values compare as bytes
    different, codes = np.unique(np.ascontiguousarray(guids).view("V16")[:, 0], return_inverse=True)
    return [guid_text(each.tobytes()) for each in different], codes


def _split(keys: Positions) -> list[Positions]:
    """Positions of each key, growing within a key."""
    if not len(keys):
        return []
    if (keys == keys[0]).all():
        return [np.arange(len(keys))]
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


# ---- headers of records ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _HeaderFrames:
    """What the headers of a batch say.

    framed     indices of the messages with Confluent's header, growing
    values     its value for each, without NULLs: Arrow large_binary
    apicurio   indices of messages whose headers have an id of Apicurio and none of Confluent, growing
    """

    framed: Positions
    values: pa.Array
    apicurio: Positions


def _header_frames(headers: pl.Series, side: Side) -> _HeaderFrames | None:
    """Reads the headers of a batch: list<struct{key: string, value: binary}>. None: none of them says anything.

    Of several headers of one name the last one counts, as for Confluent's Java clients. A header without a value frames
    nothing.
    """
    counts = headers.list.len().fill_null(0).to_numpy()
    has_some = np.flatnonzero(counts)
    if not len(has_some):
        return None
    # exploded, an empty list would be a row
    flat = (headers if len(has_some) == len(headers) else headers.gather(has_some)).explode()
    keys, values = flat.struct.field("key"), flat.struct.field("value")
    message = np.repeat(np.arange(len(counts)), counts)
    has_value = ~_mask(values.is_null())
    named = np.flatnonzero(_mask(keys == HEADERS[side]) & has_value)
    is_foreign = _mask(keys.is_in([f"apicurio.{side}.{each}" for each in _APICURIO_IDS])) & has_value
    if not len(named) and not is_foreign.any():
        return None
    owners = message[named]
    is_last = np.append(owners[1:] != owners[:-1], True)[: len(owners)]
    framed = owners[is_last]
    is_apicurio = np.zeros(len(counts), np.bool_)
    is_apicurio[message[is_foreign]] = True
    is_apicurio[framed] = False
    chosen = values.gather(named[is_last]).to_arrow(compat_level=pl.CompatLevel.oldest())
    return _HeaderFrames(framed, chosen, np.flatnonzero(is_apicurio))


def _mask(flags: pl.Series) -> npt.NDArray[np.bool_]:
    return flags.fill_null(value=False).to_numpy()
