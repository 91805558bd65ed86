"""What an archive adds to where a source may start: older offsets, times in them, and the check that none is missing.

Owns the archive's side of resolving splits; Kafka's side, and which of the two counts, is `enumerator`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.connect.source import Split, SplitId
from headrace.core.errors import UserError
from headrace.formats.archive.coverage import require_covered
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.names import ArchiveFile
from headrace.formats.archive.partition import first_at
from headrace.formats.archive.ranges import covered

Found = Mapping[SplitId, int]


class ArchivedStarts:
    """The archive of one source; without an archive it adds nothing."""

    def __init__(self, url: str | None) -> None:
        self._folder = None if url is None else ArchiveFolder(url)
        self._files: dict[SplitId, list[ArchiveFile]] = {}

    def look(self, ids: Iterable[SplitId]) -> None:
        """Lists what is archived of these partitions. Before Kafka is asked: what is archived was in Kafka first."""
        if self._folder is not None:
            self._files |= {split: self._folder.files(*split) for split in ids}

    def beginnings(self, low: Found) -> dict[SplitId, int]:
        """The earliest offset of each partition; `low`: the earliest that Kafka has."""
        return {
            split: min([offset, *(file.first for file in self._files.get(split, ()))]) for split, offset in low.items()
        }

    def ends(self, low: Found, stops: Found | None) -> dict[SplitId, int]:
        """The last offset that is archived of each partition; `low` where nothing is.

        The last one again, not the one after it: who keeps an archive up finds by it, and only by it, that no offset
        lies between what was archived and what comes next. It is not needed where nothing comes next, by `stops`.
        """
        places = dict(low)
        for split in low:
            if files := self._files.get(split):
                end = max(file.next for file in files)
                places[split] = end if stops is not None and end >= stops[split] else end - 1
        return places

    def at_time(self, time_ms: int, found: Found, low: Found) -> dict[SplitId, int]:
        """`found`, what Kafka answered for a time, or an earlier offset of that time or later that Kafka has not."""
        assert self._folder is not None or not self._files, "without an archive nothing is archived"
        places = dict(found)
        for split, files in self._files.items():
            if split in low and files and files[0].first < low[split] and self._folder is not None:
                bounds = (files[0].first, low[split])
                earlier = first_at(self._folder, split, files, bounds, time_ms)
                places[split] = found[split] if earlier is None else earlier
        return places

    def require_same_log(self, end: Found) -> None:
        """Raises UserError where the archive holds offsets that a partition (its `end` given) has not reached."""
        for split, offset in end.items():
            archived = max((file.next for file in self._files.get(split, ())), default=0)
            if archived > offset:
                raise UserError(
                    f"{split.topic} partition {split.partition}: {self._url} holds offsets up to {archived - 1}, "
                    f"but the partition ends at {offset}: it is not the log that was archived",
                    remedy="the topic was made anew, or another one has its name: give it another archive",
                )

    def require_covered(self, splits: Iterable[Split], low: Found) -> None:
        """Raises UserError where a split has a part that neither the archive nor Kafka has."""
        if self._folder is None:
            return
        for split in splits:
            require_covered(
                f"{split.id.topic} partition {split.id.partition}",
                covered(self._files.get(split.id, ())),
                split.start,
                split.stop,
                log_start=low[split.id],
                archive=self._url,
            )

    @property
    def given(self) -> bool:
        """Whether there is an archive."""
        return self._folder is not None

    @property
    def _url(self) -> str:
        return "" if self._folder is None else self._folder.url
