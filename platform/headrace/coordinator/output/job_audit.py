"""Audits a job: its committers read the output back, and the result is compared with the totals in the journal.

The output of a running job grows with every epoch. So the audit reads repeatedly, until the visible output equals the
total of a committed checkpoint that is not older than the audit. The number of reads is bounded.

The verdict on what was read (`verdict`, which does no I/O):

    equal to the total of a committed checkpoint        proven, even with a reason to doubt the topic
    else, with a reason to doubt the topic              unprovable: compaction, expired records, open transactions
    else, more rows than the job wrote                  unprovable: another writer, or duplicate rows
    else                                                the output differs

Totals are equal if the number of rows and the digest are. A digest is a sum over rows, so it does not depend on the
order of rows and partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.manifest import OutputTotal
from headrace.client.models import AuditReport, SinkAudit
from headrace.connect.sink import OutputSeen
from headrace.coordinator.connector_host.connector_host import ConnectorHost
from headrace.coordinator.output.job_handle import HeldJob, ToolHosts
from headrace.coordinator.output.transaction_safety import Phase
from headrace.core.errors import UserError
from headrace.core.retry import Backoff
from headrace.core.text.digest_text import digest_value

READ_MS = 2_000
"""How long a host reads before it reports progress, in ms."""
EPOCHS_MAX = 20
"""Commits of a running job after which an audit without a match ends."""
LOOKS_LIVE, LOOKS_WAITING, LOOKS_ENDED = 600, 15, 5
"""Most comparisons without a match, for a job that ran as the audit began, for one that waited (for slots, for a
restart), and for an ended one, each after all visible output was read. Even an ended job needs several: the markers of
its last commit may become visible a moment later."""
WAITING = frozenset({"CREATED", "SCHEDULING", "DEPLOYING", "RESTARTING"})
"""States in which no row is written."""
BACKOFF = Backoff(first_s=0.05, max_s=1.0)


class JobAudit:
    """The audit tool of a coordinator. `on_progress` receives lines of text for the user."""

    def __init__(self, hosts: ToolHosts) -> None:
        self._hosts = hosts

    async def run(self, held: HeldJob, on_progress: Callable[[str], None]) -> AuditReport:
        """Returns the report. Raises UserError for a job without an exactly-once sink, HeadraceError as the connectors
        do.
        """
        found = totals_of(await asyncio.to_thread(held.journal))
        if not found:
            raise UserError(
                f"job {held.job} ({held.name}) keeps no account of its output",
                remedy="only sinks with delivery: exactly-once do, from their first checkpoint on",
            )
        async with self._hosts.committers(held) as host:
            sinks = [await self._sink(held, host, (sink, totals), on_progress) for sink, totals in found.items()]
        return AuditReport(job_id=held.job, sinks=tuple(sinks))

    async def _sink(
        self, held: HeldJob, host: ConnectorHost, told: tuple[str, Totals], on_progress: Callable[[str], None]
    ) -> SinkAudit:
        sink, totals = told
        if not totals.begin:
            why = "nobody noted where its output began: its connector cannot, or the job is older than that"
            return _document(sink, AuditVerdict(Proof.UNPROVABLE, 0, 0, totals.newest, (why,)))
        since = totals.newest
        looks, pause_s = 0, 0.0
        while True:
            seen = await host.audit(sink, totals.begin, READ_MS)
            on_progress(f"{sink}: {seen.rows:,} rows read")
            if not seen.settled:
                continue
            looks += 1
            totals = totals.with_more(await self._totals(held, sink, totals))
            ended = verdict(seen, totals, since)
            if ended.proof is Proof.PROVEN or self._is_enough(held, totals, since, looks, seen):
                return _document(sink, ended)
            pause_s = BACKOFF.next_s(pause_s)
            await asyncio.sleep(pause_s)

    async def _totals(self, held: HeldJob, sink: str, known: Totals) -> Totals:
        return totals_of(await asyncio.to_thread(held.journal)).get(sink, known)

    def _is_enough(self, held: HeldJob, totals: Totals, since: int, looks: int, seen: OutputSeen) -> bool:
        if held.phase is not Phase.LIVE:
            return looks >= LOOKS_ENDED
        looks_max = LOOKS_WAITING if held.state in WAITING else LOOKS_LIVE
        passed = sum(epoch > since for epoch in totals.by_epoch)
        return passed >= EPOCHS_MAX or looks >= looks_max


def _document(sink: str, ended: AuditVerdict) -> SinkAudit:
    return SinkAudit(
        sink=sink,
        verdict=ended.proof.value,
        rows=ended.rows,
        expected_rows=ended.expected,
        epoch=ended.epoch,
        reasons=ended.reasons,
    )


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
