"""What must never be with transactions: told by the brokers of everything that cannot be undone, and of each record.

Rows become visible only when their epoch is decided, and nobody but time ends what is decided. Whoever fences has a
record of its own in the journal. A name is taken again only when what it holds is committed and that is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord, FinishedRecord
from headrace.checkpoint.manifest import CommittableDocument
from headrace.core.text.digest_text import digest_value
from headrace_connectors.kafka.clients.transaction_names import ATTEMPTS, parsed
from sim.external.outside import SINK, Ledger, Range, digest_of_rows
from sim.external.transactions import Entry, Identity, Taker, Transactions
from sim.world import ViolationError

if TYPE_CHECKING:
    from sim.audit.cluster import Auditor


class TransactionAuditor:
    """Beside the auditor of the journal, whose history it reads."""

    def __init__(self, journal: Auditor, ledger: Ledger) -> None:
        self._journal = journal
        self._ledger = ledger
        self.shown: set[Identity] = set()
        self.expired: set[Identity] = set()
        self.ended: dict[Identity, Taker] = {}
        self._deciding: dict[Identity, CheckpointRecord] = {}
        self._deployed: list[AttemptRecord] = []
        self.brokers: Transactions | None = None

    # ---- what brokers tell ---------------------------------------------------------------------------------------

    def visible(self, identity: Identity, rows: Sequence[Range]) -> None:
        """A transaction is committed."""
        if self._decided(identity) is None:
            raise ViolationError(f"{identity} becomes visible, but no epoch that stands has decided that")
        self.shown.add(identity)
        self._ledger.show(str(identity), tuple(rows))

    def aborted(self, identity: Identity, by: Taker | None) -> None:
        """A transaction is over, and nothing of it will be seen."""
        if by is None:
            self.expired.add(identity)
            return
        self.ended[identity] = by
        self._require_authority(identity, by)
        if self._decided(identity) is not None:
            raise ViolationError(f"{identity} is ended by {by}, but it is decided")
        whose = parsed(identity.name)
        if by.what == "sweep" and whose is not None and whose.attempt == self._journal.attempt % ATTEMPTS:
            raise ViolationError(f"{identity} is of the newest attempt, but is ended by {by}")

    def taken(self, identity: Identity, by: Taker) -> None:
        """A name is initialised. `identity`: what it had."""
        self._require_authority(identity, by)
        record = self._decided(identity)
        if record is not None and not self._is_committed(record):
            raise ViolationError(
                f"{by} takes {identity}, but epoch {record.manifest.epoch} is not known to be committed"
            )

    def _require_authority(self, identity: Identity, by: Taker) -> None:
        if by.what == "writer":
            return
        history = self._journal.history
        if any(isinstance(each, FinishedRecord) for each in history):
            return
        records = [each for each in history if isinstance(each, AttemptRecord) and each.attempt == by.attempt]
        if not records or identity.name in records[0].transactions.get(SINK, ()):
            raise ViolationError(f"{by} ends {identity}, but no record stands that says so")

    def deployed(self, record: AttemptRecord) -> None:
        """Slots of an attempt open: nothing is left of earlier ones.

        But for what began after the record of a later attempt that was deployed, this one included: a frozen writer
        registers a name that the fence did not find. That is for the sweep, or time.
        """
        self._deployed.append(record)
        for entry in self._open:
            whose = parsed(entry.name)
            assert whose is not None, "names are ours"
            later = [each.at_ms for each in self._deployed if each.attempt % ATTEMPTS > whose.attempt]
            if later and entry.started_ms < min(later):
                raise ViolationError(f"attempt {record.attempt} is deployed, but {entry.identity} is open since before")

    @property
    def _open(self) -> list[Entry]:
        return [] if self.brokers is None else self.brokers.open

    # ---- what the journal tells ----------------------------------------------------------------------------------

    def decides(self, record: CheckpointRecord) -> None:
        """An epoch is complete: all of it can still be committed, as far as anybody but time has to say."""
        self._deciding |= {identity_of(item): record for item in record.manifest.committables}
        for item in record.manifest.committables:
            if by := self.ended.get(identity_of(item)):
                raise ViolationError(
                    f"epoch {record.manifest.epoch} is decided, but {identity_of(item)} was ended by {by}"
                )

    def committed(self, record: CheckpointRecord) -> None:
        """All of it is visible, and its totals are what is."""
        for item in record.manifest.committables:
            if identity_of(item) not in self.shown:
                raise ViolationError(f"{identity_of(item)} is said to be committed, but is not visible")
        rows = [(p, first, behind) for p, ranges in self._ledger.ranges.items() for first, behind in ranges]
        total = record.manifest.output[SINK]
        if total.begin != {"end": 0}:
            raise ViolationError(f"output began when nothing was visible, not at {total.begin}")
        count = sum(behind - first for _, first, behind in rows)
        if (total.rows, digest_value(total.digest)) != (count, digest_of_rows(rows)):
            raise ViolationError(f"epoch {record.manifest.epoch} has a total of {total}, but {count} rows are visible")

    def may_go_back(self, record: CheckpointRecord) -> bool:
        """Whether all of an epoch's output has expired: going on from the one before is right then."""
        lost = [identity_of(item) in self.expired for item in record.manifest.committables]
        return bool(lost) and all(lost) and not self._is_committed(record)

    def mixed(self, record: CheckpointRecord) -> bool:
        """Whether some of an epoch's output is visible, and some never will be."""
        items = [identity_of(item) for item in record.manifest.committables]
        return any(each in self.shown for each in items) and any(each in self.expired for each in items)

    # ---- the end -------------------------------------------------------------------------------------------------

    def require_closed(self, fenced_ms: int | None, *, in_order: bool) -> None:
        """Nothing holds readers back, but what a writer began after the fence of everything, and what is decided.

        fenced_ms   when that began; None: there was no time for it
        in_order    it has FINISHED while its slots were there
        """
        newest = self._journal.attempt % ATTEMPTS
        for entry in self._open:
            whose = parsed(entry.name)
            assert whose is not None, "names are ours"
            if in_order and whose.attempt == newest:
                raise ViolationError(f"the job has FINISHED, but {entry.identity} is open")
            if fenced_ms is None or entry.started_ms >= fenced_ms or self._decided(entry.identity) is not None:
                continue
            raise ViolationError(f"everything was fenced at {fenced_ms}, but {entry.identity} is open since before")

    def _decided(self, identity: Identity) -> CheckpointRecord | None:
        record = self._deciding.get(identity)
        return record if record is not None and any(each is record for each in self._journal.live) else None

    def _is_committed(self, record: CheckpointRecord) -> bool:
        return record.manifest.epoch in self._journal.committed_epochs


def identity_of(item: CommittableDocument) -> Identity:
    """The transaction that was described."""
    if "producer_id" not in item.payload:
        raise ViolationError(f"{item.name} is recorded, but was not described")
    return Identity(item.name, item.payload["producer_id"], item.payload["producer_epoch"])
