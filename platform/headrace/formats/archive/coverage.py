"""Checks whether a range of offsets can be read without a hole, from the archive and from Kafka's log. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors import UserError
from headrace.formats.archive.ranges import Range


def hole_in(archived: Sequence[Range], start: int, stop: int | None, log_start: int) -> Range | None:
    """The first part of [start, stop) that neither the archive nor Kafka has; None if there is none.

    archived    as `ranges.covered` returns it: in order, disjoint
    stop        None: no end
    log_start   the first offset that Kafka still has, with all following ones
    """
    position = start
    end = log_start if stop is None else min(stop, log_start)
    for part in archived:
        if position >= end or part.first > position:
            break
        position = max(position, part.next)
    if position >= end:
        return None
    later = [part.first for part in archived if part.first > position]
    return Range(position, min([end, *later]))


def unbroken_from(archived: Sequence[Range], log_start: int) -> int:
    """The lowest offset from which everything can be read."""
    position = log_start
    for part in reversed(archived):
        if part.next < position:
            break
        position = min(position, part.first)
    return position


def require_covered(
    place: str, archived: Sequence[Range], start: int, stop: int | None, *, log_start: int, archive: str
) -> None:
    """Raises UserError if [start, stop) has a hole. `place`: topic and partition, for the message."""
    hole = hole_in(archived, start, stop, log_start)
    if hole is None:
        return
    held = ", ".join(f"[{part.first}, {part.next})" for part in archived[-5:]) or "nothing"
    lowest = unbroken_from(archived, log_start)
    raise UserError(
        f"{place}: offsets {hole.first} to {hole.next - 1} are neither in Kafka, which begins at {log_start}, "
        f"nor in the archive {archive}, which holds {held}",
        remedy="archive offsets while Kafka has them (`headrace archive`); or start at "
        f"{lowest} or later, without the records before. A hole that ends where Kafka begins may have no records: it "
        "closes when the archiving job continues and reads the next record",
    )
