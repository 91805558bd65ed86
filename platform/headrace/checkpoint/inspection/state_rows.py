"""The rows of one state of a located manifest, read by ranges: all of them in pieces, those of one key, or those of a
range of key groups. Only the row groups that can hold such rows are read, each verified.

Frames are as the step wrote them: several rows of one key, and frames that differ in columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from headrace.checkpoint.inspection.stored_state import StoredState
from headrace.checkpoint.manifest import FilePart, StateHandle
from headrace.checkpoint.part_reader import PartReader, ReadRange
from headrace.checkpoint.stores.opening import read_url_range
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.core.errors import ExternalError
from headrace.core.keygroups import key_groups
from headrace.state.row_groups import KeyOrder
from headrace.state.snapshot import StateKind

ROW_GROUPS_MAX = 32
"""Row groups that are read at once: at most 262,144 rows."""


class StateRows:
    """One state of a located manifest."""

    def __init__(self, stored: StoredState, *, read: ReadRange = read_url_range) -> None:
        self.stored = stored
        self._read = read
        self._readers: dict[FilePart, PartReader] = {}

    @property
    def is_hashed(self) -> bool:
        """Whether its rows belong to key groups."""
        return self.stored.kind == StateKind.KEYED and bool(self.stored.keys)

    @property
    def is_divided(self) -> bool:
        """Whether its rows can be read by key group without reading all of them. Reads the footers of its files."""
        if not self.is_hashed:
            return False
        groups = [self._reader(handle, part).groups for handle, part in self._parts()]
        return all(each is not None and each.max_parallelism == self.stored.max_parallelism for each in groups)

    def pieces(self) -> Iterator[pl.DataFrame]:
        """All rows, as frames of at most `ROW_GROUPS_MAX` row groups. Raises ExternalError for a file that is damaged
        or missing."""
        for handle, part in self._parts():
            reader = self._reader(handle, part)
            numbers = reader.row_groups
            # a file without ranges is verified as a whole, once
            size = len(numbers) if reader.groups is None else ROW_GROUPS_MAX
            for begin in range(0, len(numbers), max(size, 1)):
                yield from reader.rows(numbers[begin : begin + size])

    def of_key(self, key: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The rows of a key. key: one row with the key columns, in their types and normal form."""
        keys = self.stored.keys
        group, _ = KeyOrder(keys, self.stored.max_parallelism).sort(key).place(0)
        for handle, part in self._parts():
            if not handle.first_group <= group <= handle.last_group:
                continue
            reader = self._reader(handle, part)
            numbers = list(reader.row_groups)
            if reader.groups is not None and reader.groups.max_parallelism is not None:
                place = KeyOrder(keys, reader.groups.max_parallelism).sort(key).place(0)
                numbers = [number for number in numbers if reader.groups.groups[number].can_hold(place)]
            for frame in reader.rows(numbers) if numbers else ():
                own = frame.join(key, on=list(keys), how="semi", nulls_equal=True)
                if own.height:
                    yield own

    def of_groups(self, span: tuple[int, int]) -> Iterator[pl.DataFrame]:
        """The rows of the key groups `span` (first, last), of a state that `is_divided`."""
        for handle, part in self._parts():
            if handle.first_group > span[1] or handle.last_group < span[0]:
                continue
            reader = self._reader(handle, part)
            assert reader.groups is not None, "a divided state has ranges"
            groups = reader.groups.groups
            numbers = [number for number in reader.row_groups if groups[number].meets(span)]
            is_inside = all(groups[number].lies_within(span) for number in numbers)
            for frame in reader.rows(numbers) if numbers else ():
                own = frame if is_inside else self._within(frame, span)
                if own.height:
                    yield own

    def _within(self, frame: pl.DataFrame, span: tuple[int, int]) -> pl.DataFrame:
        groups = pl.Series(key_groups(frame, self.stored.keys, self.stored.max_parallelism))
        return frame.filter(groups.is_between(*span))

    def _parts(self) -> Iterator[tuple[StateHandle, FilePart]]:
        return ((handle, part) for handle in self.stored.handles for part in handle.files)

    def _reader(self, handle: StateHandle, part: FilePart) -> PartReader:
        if part not in self._readers:
            place = f" of state {handle.state!r} of node {handle.node!r}"
            self._readers[part] = PartReader(part, self._range, place)
        return self._readers[part]

    def _range(self, path: str, offset: int, /, *, length: int) -> bytes:
        try:
            return self._read(path, offset, length=length)
        except ObjectNotFoundError as error:
            if not self.stored.is_pruned:
                raise ExternalError(f"{path} is missing", remedy="put that file back, or read another one") from error
            raise ExternalError(
                f"{path} is gone: {self.stored.origin} is no longer retained",
                remedy="read again for the newest checkpoint, or read a savepoint, which nobody deletes",
            ) from error
