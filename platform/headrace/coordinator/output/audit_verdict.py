"""Judges an audit: compares the rows of an output topic, as they were read back, with the totals in the job's
checkpoints. Pure.

    equal to the total of a committed checkpoint        proven, even with a reason to doubt the topic
    else, with a reason to doubt the topic              unprovable: compaction, expired records, open transactions
    else, more rows than the job wrote                  unprovable: another writer, or duplicate rows
    else                                                the output differs

Totals are equal if the number of rows and the digest are. A digest is a sum over rows, so it does not depend on the
order of rows and partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.manifest import OutputTotal
from headrace.connect.sink import OutputSeen
from headrace.core.text.digest_text import digest_value


class Proof(StrEnum):
    """The result of an audit."""

    PROVEN = "proven"
    DIFFERS = "differs"
    UNPROVABLE = "unprovable"


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """The result of one sink's audit.

    rows       number of rows that readers see
    expected   number of rows at checkpoint `epoch`
    reasons    why it is not proven
    """

    proof: Proof
    rows: int
    expected: int
    epoch: int | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Totals:
    """A sink's committed output at each known checkpoint.

    begin      the position in the external system at which the job's output began; empty: unknown
    by_epoch   epoch -> total; epoch 0: the start of the attempt, if the job has no checkpoint yet
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
        """Adds the totals of a later read of the journal; this object keeps those of checkpoints that were deleted
        meanwhile."""
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
    """Compares the rows that were read with the totals of checkpoint `since` and of later ones."""
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
