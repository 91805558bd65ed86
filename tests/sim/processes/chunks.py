"""The state of a simulated slot in storage: files of ranges of rows, which must tile what was read.

Each chunk is a file that is written once; later checkpoints name the chunks of earlier ones of the same attempt, and
now and then all chunks are merged into one. So a checkpoint whose files were pruned, or mixed up, cannot be restored:
its chunks leave a gap or overlap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sim.external.outside import Range
from sim.world import ViolationError


def chunk(rows: Sequence[Range]) -> bytes:
    """The content of a file."""
    return json.dumps(rows).encode()


def read_chunk(held: dict[str, bytes], path: str) -> list[Range]:
    """The ranges of a chunk. A file that is missing is a violation: what names it was complete."""
    if path not in held:
        raise ViolationError(f"{path} is needed, but not there")
    return [(p, first, behind) for p, first, behind in json.loads(held[path])]


def tiled(partition: int, ranges: Sequence[tuple[int, int]]) -> int:
    """How many rows the chunks of a partition hold; a gap or an overlap is a violation."""
    end = 0
    for first, behind in sorted(ranges):
        if first != end:
            raise ViolationError(f"chunks of partition {partition} do not fit: {sorted(ranges)}")
        end = behind
    return end


def restored(held: dict[str, bytes], paths: Sequence[str]) -> dict[int, int]:
    """Partition -> rows that these chunks hold."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for path in paths:
        for partition, first, behind in read_chunk(held, path):
            ranges.setdefault(partition, []).append((first, behind))
    return {partition: tiled(partition, own) for partition, own in ranges.items()}
