"""Selects the files to read from a position on, and the offsets that files cover together. Pure.

Files of a partition may overlap: a restarted writer divides rows differently, and several jobs may archive the
same topic. An offset has the same content in every file, so any choice of files returns the same rows. This module
chooses, at each position, the file that extends furthest, which needs the fewest files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.formats.archive.names import ArchiveFile


class Range(NamedTuple):
    """Offsets [first, next)."""

    first: int
    next: int


def covered(files: Iterable[ArchiveFile]) -> list[Range]:
    """The offsets that the files account for, as the fewest ranges, in order."""
    ranges: list[Range] = []
    for file in sorted(files):
        if ranges and file.first <= ranges[-1].next:
            ranges[-1] = Range(ranges[-1].first, max(ranges[-1].next, file.next))
        else:
            ranges.append(Range(file.first, file.next))
    return ranges


def chosen(files: Iterable[ArchiveFile], start: int, stop: int | None) -> list[ArchiveFile]:
    """The files to read for [start, stop), in order; None: no end. Skips holes: the file after a hole begins later than
    its predecessor ends."""
    known = sorted(file for file in files if file.next > start and (stop is None or file.first < stop))
    picked: list[ArchiveFile] = []
    position, at = start, 0
    best: ArchiveFile | None = None
    while stop is None or position < stop:
        while at < len(known) and known[at].first <= position:
            best = max(best or known[at], known[at], key=_reach)
            at += 1
        if best is not None and best.next > position:
            picked.append(best)
            position = best.next
        elif at < len(known):
            position = known[at].first
        else:
            break
    return picked


def _reach(file: ArchiveFile) -> tuple[int, ArchiveFile]:
    return file.next, file


def continued(files: Iterable[ArchiveFile], writer: str, row: int) -> int:
    """The `first` of the next file of `writer` whose first row has offset `row`, unless it continues a file of this
    process.

    A restored job continues from its checkpoint, so all offsets between its own furthest file and its first row are
    known not to exist. For a job without a file, the offsets before its first row are unknown.
    """
    ends = [file.next for file in files if file.writer == writer and file.next <= row]
    return max(ends, default=row)
