"""Names in an archive, and the guarantees that they encode. Pure.

    <topic>/<partition, 5 digits>/<first>-<next>-<writer>.parquet

`first` and `next` have 20 digits, so that names sort by offset. A name guarantees that every offset in [first, next) is
accounted for: the offset is a row of the file, or is known not to exist (control records, compacted records). `writer`
identifies the job that wrote the file: no job replaces another job's file, and a job finds its own files by listing.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

_FILE = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{12})\.parquet")
_PARTITION = re.compile(r"\d{5,10}")


class ArchiveFile(NamedTuple):
    """A file of one partition by its name; ordered by `first`, then `next`."""

    first: int
    next: int
    writer: str

    @property
    def name(self) -> str:
        """The file's name in its partition's folder."""
        return f"{self.first:020d}-{self.next:020d}-{self.writer}.parquet"


def file_named(name: str) -> ArchiveFile | None:
    """The file with this name; None for other names (a temporary file, a user's notes)."""
    found = _FILE.fullmatch(name)
    if found is None:
        return None
    first, following = int(found[1]), int(found[2])
    return ArchiveFile(first, following, found[3]) if first < following else None


def writer_of(job: str) -> str:
    """The job's identifier in file names."""
    return hashlib.blake2b(job.encode(), digest_size=6).hexdigest()


def partition_folder(topic: str, partition: int) -> str:
    """The folder of a partition, relative to the archive."""
    return f"{topic}/{partition:05d}"


def partition_named(name: str) -> int | None:
    """The partition whose folder has this name; None for other names."""
    return int(name) if _PARTITION.fullmatch(name) else None
