"""Decodes framed messages: a decoder for each schema, opened when a batch first has it. Pure.

It asks nobody: of schemas that it does not know it returns the ids, and is told by `learn` what they are. A batch is
decoded once all of its schemas are known or absent.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from headrace.connect.format import Decoded, Decoder, Messages, Side, UnknownIds
from headrace.formats.doubtful_rows import BadMessageError
from headrace.formats.messages import Indices
from headrace.formats.registry.frames import FrameGroup, Frames, read_frames
from headrace.formats.registry.message_indexes import MessagePath
from headrace.formats.registry.schemas import SchemaId, WholeSchema

SCHEMAS_MAX = 4_096
"""Schemas that are kept between batches, those used last."""
DECODERS_MAX = 256
"""Open decoders that are kept between batches, those used last."""
ASKED_MAX = 64
"""Most ids of one answer; the others follow."""


OpenPayloads = Callable[[WholeSchema, MessagePath | None], Decoder]
"""Opens the decoder of payloads of a schema and, for Protobuf, of a message of it. Raises BadMessageError if no message
of it can become a row: then all of them are bad."""


class FramedDecoder:
    """Decodes the messages of one side of a source. Not thread-safe.

    registry       its address, as users see it, without secrets
    empty          the columns
    with_messages  Protobuf's: message indexes follow the ids
    """

    def __init__(
        self,
        registry: str,
        open_payloads: OpenPayloads,
        empty: pl.DataFrame,
        *,
        side: Side = "value",
        with_messages: bool = False,
    ) -> None:
        self._registry = registry
        self._open_payloads = open_payloads
        self._empty = empty
        self._side = side
        self._with_messages = with_messages
        self._schemas: OrderedDict[SchemaId, WholeSchema] = OrderedDict()
        self._absent: set[SchemaId] = set()
        self._decoders: OrderedDict[tuple[SchemaId, MessagePath | None], Decoder | str] = OrderedDict()
        """Schema and message -> the decoder, or why there is none."""

    def learn(self, found: Mapping[str, WholeSchema | None]) -> None:
        """Takes the schemas of ids as `UnknownIds` names them. None: the registry has none, which counts for one batch:
        it may have one later."""
        for name, schema in found.items():
            schema_id = int(name) if name.isdigit() else name
            if schema is None:
                self._absent.add(schema_id)
            else:
                self._schemas[schema_id] = schema

    def decode(self, messages: Messages) -> Decoded | UnknownIds:
        """See `Decoder`."""
        frames = read_frames(messages.values, messages.headers, side=self._side, with_messages=self._with_messages)
        unknown = [each for each in frames.schemas if each not in self._schemas and each not in self._absent]
        if unknown:
            return UnknownIds(tuple(str(each) for each in unknown[:ASKED_MAX]), self._waits_for(unknown))
        decoded = [self._decoded(group) for group in frames.groups]
        self._absent.clear()
        self._forget()
        return _merged(frames, decoded, self._empty)

    def _waits_for(self, unknown: Sequence[SchemaId]) -> str:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        return f"registry {self._registry}, schema {unknown[0]}{more}"

    def _decoded(self, group: FrameGroup) -> Decoded:
        if group.schema in self._absent:
            return self._all_bad(group, f"registry {self._registry} has no schema {group.schema}")
        self._schemas.move_to_end(group.schema)
        decoder = self._decoder(group)
        if isinstance(decoder, str):
            return self._all_bad(group, decoder)
        found = decoder.decode(Messages(group.payloads))
        assert isinstance(found, Decoded), "payloads of a known schema need no other one"
        return found

    def _decoder(self, group: FrameGroup) -> Decoder | str:
        key = (group.schema, group.message)
        if key not in self._decoders:
            try:
                self._decoders[key] = self._open_payloads(self._schemas[group.schema], group.message)
            except BadMessageError as reason:
                self._decoders[key] = f"schema {group.schema}: {reason}"
        self._decoders.move_to_end(key)
        return self._decoders[key]

    def _all_bad(self, group: FrameGroup, reason: str) -> Decoded:
        count = len(group.index)
        return Decoded(self._empty, np.empty(0, np.int64), np.arange(count), (reason,) * count)

    def _forget(self) -> None:
        """After a batch, which may have more schemas than are kept: it needs all of them."""
        while len(self._schemas) > SCHEMAS_MAX:
            self._schemas.popitem(last=False)
        while len(self._decoders) > DECODERS_MAX:
            self._decoders.popitem(last=False)


def _merged(frames: Frames, decoded: Sequence[Decoded], empty: pl.DataFrame) -> Decoded:
    """The rows of all groups in the order of their messages; bad are messages without a frame, and those of groups.

    decoded  one result for each group, of its payloads
    empty    the columns, for a batch without groups
    """
    goods = [_good(group, result) for group, result in zip(frames.groups, decoded, strict=True)]
    bad = dict(frames.bad)
    for group, result in zip(frames.groups, decoded, strict=True):
        bad.update(zip(group.index[result.bad].tolist(), result.reasons, strict=True))
    skipped = frames.skipped + sum(result.skipped for result in decoded)
    rows, good = _in_order([result.rows for result in decoded], goods, empty)
    bad_index = np.fromiter(sorted(bad), np.int64, len(bad))
    reasons = tuple(bad[index] for index in bad_index.tolist())
    return Decoded(rows, good if bad or skipped else None, bad_index, reasons, skipped)


def _good(group: FrameGroup, result: Decoded) -> Indices:
    return group.index if result.good is None else group.index[result.good]


def _in_order(
    frames: Sequence[pl.DataFrame], goods: Sequence[Indices], empty: pl.DataFrame
) -> tuple[pl.DataFrame, Indices]:
    if not frames:
        return empty, np.empty(0, np.int64)
    if len(frames) == 1:
        return frames[0], goods[0]
    good = np.concatenate(goods)
    order = np.argsort(good, kind="stable")
    return pl.concat(frames)[order], good[order]
