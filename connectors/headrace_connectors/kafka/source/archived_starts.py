"""Extends the possible starts of a source by its archive: older offsets, times in them, and a check for holes.

Owns the archive's side of resolving splits; `enumerator` owns Kafka's side, and the choice between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.connect.source import Split, SplitId
from headrace.formats.archive.coverage import require_covered
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.names import ArchiveFile
from headrace.formats.archive.partition import first_at
from headrace.formats.archive.ranges import covered
from headrace_connectors.kafka.config import KafkaSourceSettings
from headrace_connectors.kafka.source.archived_log import another_log, require_same_records

Found = Mapping[SplitId, int]


class ArchivedStarts:
    """The archive of one source; without an archive it adds nothing."""

    def __init__(self, url: str | None) -> None:
        self._folder = None if url is None else ArchiveFolder(url)
        self._files: dict[SplitId, list[ArchiveFile]] = {}

    def refresh(self, ids: Iterable[SplitId]) -> None:
        """Lists the archived files of these partitions. Called before Kafka is queried: archived offsets were in Kafka
        first."""
        if self._folder is not None:
            self._files |= {split: self._folder.files(*split) for split in ids}

    def beginnings(self, low: Found) -> dict[SplitId, int]:
        """The earliest offset of each partition; `low`: Kafka's earliest."""
        return {
            split: min([offset, *(file.first for file in self._files.get(split, ()))]) for split, offset in low.items()
        }

    def ends(self, low: Found, stops: Found | None) -> dict[SplitId, int]:
        """The last archived offset of each partition; `low` without an archive.

        The last one, not the one after it: an archiving job must read it again, because only then does it know that
        there is no offset between the archive and the next record. That is not needed if `stops` leaves no next record.
        """
        places = dict(low)
        for split in low:
            if files := self._files.get(split):
                end = max(file.next for file in files)
                places[split] = end if stops is not None and end >= stops[split] else end - 1
        return places

    def at_time(self, time_ms: int, found: Found, low: Found) -> dict[SplitId, int]:
        """`found`, Kafka's answer for a time, or an earlier archived offset of that time or later."""
        assert self._folder is not None or not self._files, "without an archive nothing is archived"
        places = dict(found)
        for split, files in self._files.items():
            if split in low and files and files[0].first < low[split] and self._folder is not None:
                bounds = (files[0].first, low[split])
                earlier = first_at(self._folder, split, files, bounds, time_ms)
                places[split] = found[split] if earlier is None else earlier
        return places

    def require_same_log(self, config: KafkaSourceSettings, low: Found, end: Found) -> None:
        """Raises UserError if the archive holds offsets beyond a partition's `end`, or another record at an offset that
        Kafka still has; `low`: Kafka's earliest. One partition of each topic is compared: topics are replaced whole."""
        if self._folder is None:
            return
        common: dict[str, tuple[SplitId, int]] = {}
        for split, offset in end.items():
            archived = max((file.next for file in self._files.get(split, ())), default=0)
            if archived > offset:
                raise another_log(
                    split, self._url, f"the archive ends at offset {archived - 1}, but the partition ends at {offset}"
                )
            if low[split] < archived:
                common[split.topic] = (split, archived - 1)
        require_same_records(config, self._folder, dict(common.values()))

    def require_covered(self, splits: Iterable[Split], low: Found) -> None:
        """Raises UserError if a split has a part that neither the archive nor Kafka has."""
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
    def is_used(self) -> bool:
        """Whether the source has an archive."""
        return self._folder is not None

    @property
    def _url(self) -> str:
        return "" if self._folder is None else self._folder.url
