"""Bytes that enter and leave the nodes of one subtask. Plain counters, added to once per batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(slots=True)
class NodeBytes:
    """The bytes of one node in one subtask since the attempt began. One thread adds, any thread may read.

    A batch that stays inside of a chain is passed by reference, so its bytes are not counted: `bytes_in` counts at a
    source and at the first node of a task that reads from others, `bytes_out` at edges to other tasks and at sinks.
    """

    bytes_in: int = 0
    bytes_out: int = 0


def payload_bytes(values: pa.Array) -> int:
    """The bytes of variable-width values without their offsets; of a view type with its views. Costs no loop over
    rows."""
    size = int(values.nbytes)
    if pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type):
        return max(size - 8 * len(values), 0)
    if pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        return max(size - 4 * len(values), 0)
    return size
