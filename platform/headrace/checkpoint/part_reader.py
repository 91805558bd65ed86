"""Reads a part of a stored state by ranges: the footer of its file, then the row groups that are asked for, each
verified.

A file of an earlier version, whose footer describes no row groups, is read and verified as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import polars as pl

from headrace.checkpoint.manifest import FilePart
from headrace.checkpoint.paths import joined
from headrace.core.errors import ExternalError, InternalError
from headrace.state.parquet import checksum, checksums, footer_bytes, read_row_groups, row_groups_of
from headrace.state.row_groups import RowGroup

FOOTER_BYTES = 32_768
"""Bytes at the end of a file that are read first: the whole footer, unless the file has many row groups."""


class ReadRange(Protocol):
    """Reads `length` bytes of a file, or fewer if it ends before. Raises ExternalError if the file does not exist or
    storage does not answer."""

    def __call__(self, path: str, offset: int, /, *, length: int) -> bytes:
        """Returns the bytes from `offset` on."""
        ...


class PartReader:
    """A part of a state, whose file is read by ranges.

    part         its description
    row_groups   numbers of the part's row groups
    groups       all row groups of the file; None: its footer does not describe them
    """

    def __init__(self, part: FilePart, read: ReadRange, place: str = "", *, folder: str = "") -> None:
        """place: ` of state .. of node ..`, for errors. folder: URL of the folder that a relative path belongs to."""
        self.part = part
        self._url = joined(folder, part.path)
        self._read = read
        self._place = place
        self.row_groups = part.row_groups
        # zeros are pages of no memory until a range is read into them
        self._data = np.zeros(part.bytes, np.uint8).data
        self._end = max(0, part.bytes - FOOTER_BYTES)
        self._load(self._end, part.bytes)
        begin = max(0, part.bytes - footer_bytes(bytes(self._data[-8:])))
        if begin < self._end:
            self._load(begin, self._end)
            self._end = begin
        try:
            self.groups = row_groups_of(self._data)
        except InternalError as error:
            raise self._damaged(error.message) from error

    def rows(self, row_groups: Sequence[int]) -> list[pl.DataFrame]:
        """The rows of these row groups, a frame for each chunk. Raises ExternalError for damaged bytes."""
        if self.groups is None:
            self._load_whole()
        else:
            members = [(number, self.groups.groups[number]) for number in row_groups]
            for begin, end in _ranges(member for _, member in members):
                self._load(begin, min(end, self._end))
            self._verify(members)
        try:
            frames = read_row_groups(self._data, row_groups)
        except InternalError as error:
            raise self._damaged(error.message) from error
        if self.groups is not None:
            self._release()
        return frames

    def _release(self) -> None:
        """Frees all pages but those of the footer: a caller that reads a large file in pieces holds one of them."""
        fresh = np.zeros(self.part.bytes, np.uint8).data
        fresh[self._end :] = self._data[self._end :]
        self._data = fresh

    def _load(self, begin: int, end: int) -> None:
        """Reads these bytes; from `_end` on they are there."""
        if begin >= end:
            return
        data = self._read(self._url, begin, length=end - begin)
        if len(data) != end - begin:
            raise self._damaged(f"it ends before {self.part.bytes} bytes, which were written")
        self._data[begin:end] = data

    def _load_whole(self) -> None:
        self._load(0, self._end)
        self._end = 0
        if checksum(bytes(self._data)) != self.part.checksum:
            raise self._damaged(f"its checksum is not {self.part.checksum}, which was written")

    def _verify(self, members: Sequence[tuple[int, RowGroup]]) -> None:
        found = checksums([bytes(self._data[group.offset : group.offset + group.bytes]) for _, group in members])
        for (number, group), actual in zip(members, found, strict=True):
            if actual != group.checksum:
                raise self._damaged(f"row group {number}, {group.describe()}, is altered")

    def _damaged(self, reason: str) -> ExternalError:
        return ExternalError(
            f"{self._url}{self._place} is damaged: {reason}",
            remedy="restore from another checkpoint or savepoint, or put the file back",
        )


def _ranges(groups: Iterable[RowGroup]) -> Iterator[tuple[int, int]]:
    """The byte ranges (begin, end) of row groups, those that touch as one."""
    begin = end = 0
    for group in groups:
        if group.offset != end:
            if begin < end:
                yield begin, end
            begin = group.offset
        end = group.offset + group.bytes
    if begin < end:
        yield begin, end
