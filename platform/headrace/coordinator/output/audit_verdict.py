"""Judges an audit: compares an output topic, read back, with the job's account of its output. Pure.

    equal to the total of a committed checkpoint        proven, whatever else is the matter
    else, with a reason to doubt the topic              unprovable: compaction, expired records, open transactions
    else, more rows than were written                   unprovable: another writer, or duplicate rows
    else                                                it differs

Count and digest decide together. A digest is a sum over rows, so it does not depend on the order of rows and
partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.manifest import OutputTotal
from headrace.connect.sink import OutputSeen
from headrace.core.digest_text import digest_value


class Proof(StrEnum):
    """The result of an audit."""

    PROVEN = "proven"
    DIFFERS = "differs"
    UNPROVABLE = "unprovable"


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """The result of one sink's audit.

    rows       that readers see
    expected   rows at checkpoint `epoch`
    """

    proof: Proof
    rows: int
    expected: int
    epoch: int | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Totals:
    """A sink's committed output at each known checkpoint. begin: where its output began, empty: unknown.

    by_epoch   epoch -> total; 0: nothing was committed yet
    """

    begin: Mapping[str, object]
    by_epoch: Mapping[int, OutputTotal]

    @property
    def newest(self) -> int:
        """The newest epoch."""
        return max(self.by_epoch)

    def matching(self, seen: OutputSeen, since: int) -> int | None:
        """Returns the newest epoch, from `since` on, whose total equals what was read."""
        found = (
            epoch
            for epoch, total in self.by_epoch.items()
            if epoch >= since and (total.rows, digest_value(total.digest)) == (seen.rows, seen.digest)
        )
        return max(found, default=None)

    def with_more(self, later: Totals) -> Totals:
        """Adds the totals of a later read: checkpoints are deleted meanwhile."""
        return Totals(self.begin or later.begin, {**self.by_epoch, **later.by_epoch})


def totals_of(journal: Journal) -> dict[str, Totals]:
    """Returns sink -> totals of its checkpoints, for all sinks that deliver exactly once."""
    attempt = journal.newest_attempt
    first = {} if attempt is None or journal.checkpoints else dict(attempt.output)
    found = {sink: Totals(total.begin, {0: total}) for sink, total in first.items()}
    for record in journal.checkpoints:
        manifest = record.manifest
        for sink, total in manifest.output.items():
            known = found.get(sink, Totals(total.begin, {}))
            found[sink] = known.with_more(Totals(total.begin, {manifest.epoch: total}))
    return found


def verdict(seen: OutputSeen, totals: Totals, since: int) -> AuditVerdict:
    """Judges what was read against the totals of checkpoint `since` or a later one."""
    epoch = totals.matching(seen, since)
    if epoch is not None:
        return AuditVerdict(Proof.PROVEN, seen.rows, seen.rows, epoch)
    expected = totals.by_epoch[totals.newest].rows
    if seen.doubts:
        return AuditVerdict(Proof.UNPROVABLE, seen.rows, expected, totals.newest, seen.doubts)
    if seen.rows > expected:
        more = f"{seen.rows - expected} rows more than the job wrote: another writer, or rows that came twice"
        return AuditVerdict(Proof.UNPROVABLE, seen.rows, expected, totals.newest, (more,))
    missing = expected - seen.rows
    why = f"{missing} rows are missing" if missing else "the number of rows is right, but some are others"
    return AuditVerdict(Proof.DIFFERS, seen.rows, expected, totals.newest, (why,))
