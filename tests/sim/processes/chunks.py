"""The state of a simulated slot in storage: files of ranges of rows, which must tile what was read.

Each chunk is a file that is written once, with a row group for each partition. Later checkpoints name the chunks of
earlier ones, also of earlier attempts, and now and then all chunks are merged into one. After a rescale several
subtasks name row groups of one file. So a checkpoint whose files were pruned, or mixed up, cannot be restored: its
chunks leave a gap or overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sim.external.outside import Range
from sim.world import ViolationError

RowGroup = tuple[str, int]
"""A file, and the number of one range of rows in it."""


def chunk(rows: Sequence[Range]) -> bytes:
    """The content of a file."""
    return json.dumps(rows).encode()


def read_chunk(held: dict[str, bytes], path: str, row_groups: Iterable[int] | None = None) -> list[Range]:
    """The ranges of a chunk; row_groups: only these. A file that is missing is a violation: what names it was
    complete."""
    if path not in held:
        raise ViolationError(f"{path} is needed, but not there")
    ranges = [(p, first, behind) for p, first, behind in json.loads(held[path])]
    return ranges if row_groups is None else [ranges[number] for number in row_groups]


def tiled(partition: int, ranges: Sequence[tuple[int, int]]) -> int:
    """How many rows the chunks of a partition hold; a gap or an overlap is a violation."""
    end = 0
    for first, behind in sorted(ranges):
        if first != end:
            raise ViolationError(f"chunks of partition {partition} do not fit: {sorted(ranges)}")
        end = behind
    return end


class Chunks:
    """What one subtask has in storage: partition -> its rows, and the row groups that hold them."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.row_groups: dict[int, tuple[RowGroup, ...]] = {}

    @staticmethod
    def restored(held: dict[str, bytes], row_groups: Iterable[RowGroup]) -> Chunks:
        """Those of all subtasks that a checkpoint names."""
        found, ranges = Chunks(), dict[int, list[tuple[int, int]]]()
        for path, number in row_groups:
            ((partition, first, behind),) = read_chunk(held, path, [number])
            ranges.setdefault(partition, []).append((first, behind))
            found.row_groups[partition] = (*found.row_groups.get(partition, ()), (path, number))
        found.rows = {partition: tiled(partition, own) for partition, own in ranges.items()}
        return found

    def missing(self, counted: dict[int, int]) -> list[Range]:
        """The rows of these partitions that are in no chunk yet."""
        return [(partition, self.rows.get(partition, 0), behind) for partition, behind in counted.items()]

    def with_file(self, path: str, counted: dict[int, int]) -> Chunks:
        """The chunks of these partitions once that file holds what was missing."""
        after = Chunks()
        after.rows = dict(counted)
        for number, partition in enumerate(counted):
            after.row_groups[partition] = (*self.row_groups.get(partition, ()), (path, number))
        return after

    def files(self) -> dict[str, tuple[int, ...]]:
        """File -> its row groups."""
        found: dict[str, tuple[int, ...]] = {}
        for path, number in (each for own in self.row_groups.values() for each in own):
            found[path] = (*found.get(path, ()), number)
        return found
