"""The epoch in flight: from its barrier to its `committed` record. Pure.

    COLLECTING ──every slot acked──> [DESCRIBING] ──> RECORDING ──record stands──> COMMITTING ──visible──> CLOSING
        │                (what is to be committed)        (the decision)                                  record │
        └── declined, timed out: given up                     done <── [SAVING: a savepoint's own manifest] <────┘

One epoch at a time: the next one is triggered when this one is done, so an epoch is never complete before the previous
one is committed. This module owns stages, acknowledgements and due times; the job's states decide what follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.checkpoint.manifest import CommittableDocument, Manifest, SubtaskDocument
from headrace.spec.settings import Checkpoint


class Purpose(Enum):
    """The reason for an epoch."""

    PERIODIC = "periodic"
    SAVEPOINT = "savepoint"
    STOP = "stop"
    RESCALE = "rescale"
    FINAL = "final"


class Stage(Enum):
    """The stage of an epoch. Nothing is decided before RECORDING."""

    COLLECTING = "collecting"
    DESCRIBING = "describing"
    RECORDING = "recording"
    COMMITTING = "committing"
    CLOSING = "closing"
    SAVING = "saving"


_UNDECIDED = frozenset({Stage.COLLECTING, Stage.DESCRIBING})


@dataclass(slots=True)
class Pending:
    """The epoch in flight.

    folder      URL of the savepoint folder that it fills, or empty
    final       all input had ended before its barrier
    committed   the newest committed epoch of the attempt
    """

    epoch: int
    purpose: Purpose
    started_ms: int
    waiting: set[int]
    folder: str = ""
    request: str | None = None
    drain: bool = False
    final: bool = False
    stage: Stage = Stage.COLLECTING
    committed: int = 0
    documents: list[SubtaskDocument] = field(default_factory=list)
    manifest: Manifest | None = None

    @property
    def committables(self) -> tuple[CommittableDocument, ...]:
        """The writers' committables, in an order that does not depend on the order of the acknowledgements.

        A barrier from another slot may overtake the notice that the previous epoch is committed. Its writer then
        returns committables once more that are committed already.
        """
        documents = sorted(self.documents, key=lambda document: (document.task, document.subtask))
        return tuple(item for each in documents for item in each.committables if item.epoch > self.committed)


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """A savepoint request that waits for its turn. folder: empty: a checkpoint is requested."""

    request: str
    folder: str


class Epochs:
    """The epochs of one attempt."""

    def __init__(self, settings: Checkpoint, *, slots: int, last_epoch: int, now_ms: int) -> None:
        self._settings = settings
        self._slots = slots
        self._last = last_epoch
        self._committed = last_epoch
        self._failures = 0
        self._savepoint_failed = False
        interval = settings.interval_ms
        self._due_ms = None if interval is None else now_ms + interval
        self.pending: Pending | None = None

    @property
    def last_epoch(self) -> int:
        """The greatest epoch that was ever begun."""
        return self._last

    def begin(
        self, purpose: Purpose, now_ms: int, *, folder: str = "", request: str | None = None, drain: bool = False
    ) -> Pending:
        """Starts the next epoch."""
        assert self.pending is None, "one epoch at a time"
        self._last += 1
        self.pending = Pending(self._last, purpose, now_ms, set(range(self._slots)), folder, request, drain)
        self.pending.committed = self._committed
        # counted from the trigger: a slow checkpoint does not shift the next ones
        if self._settings.interval_ms is not None:
            self._due_ms = now_ms + self._settings.interval_ms
        return self.pending

    def in_stage(self, stage: Stage, epoch: int | None = None) -> Pending | None:
        """Returns the epoch in flight, if it is in that stage (and has that number)."""
        pending = self.pending
        if pending is None or pending.stage is not stage or (epoch is not None and pending.epoch != epoch):
            return None
        return pending

    def ack(self, index: int, epoch: int, documents: tuple[SubtaskDocument, ...]) -> Pending | None:
        """A slot's snapshot is in storage. Returns the epoch once all slots have acknowledged; ignores late
        acknowledgements.
        """
        pending = self.in_stage(Stage.COLLECTING, epoch)
        if pending is None or index not in pending.waiting:
            return None
        pending.waiting.discard(index)
        pending.documents += documents
        return None if pending.waiting else pending

    def done(self, now_ms: int) -> Pending:
        """Ends the epoch in flight: it is complete and committed."""
        assert self.pending is not None, "an epoch is in flight"
        pending, self.pending = self.pending, None
        self._failures, self._savepoint_failed, self._committed = 0, False, pending.epoch
        self._pause(now_ms)
        return pending

    def give_up(self, now_ms: int) -> tuple[Pending, bool]:
        """Ends the epoch in flight, which failed before it was recorded. Returns it, and whether the attempt fails with
        it.
        """
        assert self.pending is not None, "an epoch is in flight"
        assert self.pending.stage in _UNDECIDED, "what is recorded is decided"
        pending, self.pending = self.pending, None
        self._pause(now_ms)
        # a user's savepoint that fails must not fail the attempt
        if pending.purpose is Purpose.SAVEPOINT:
            self._savepoint_failed = True
            return pending, False
        self._failures += 1
        return pending, pending.purpose is not Purpose.PERIODIC or self._failures > self._settings.tolerable_failures

    def _pause(self, now_ms: int) -> None:
        if self._due_ms is not None:
            self._due_ms = max(self._due_ms, now_ms + self._settings.min_pause_ms)

    @property
    def takes_savepoints(self) -> bool:
        """Whether a savepoint may be the next epoch. False after a savepoint that failed: its prepared output occupies
        one of the writers' few transaction names until an epoch is committed.
        """
        return not self._savepoint_failed or self._due_ms is None

    def timed_out(self, now_ms: int) -> bool:
        """Whether slots, or the committers' check, have exceeded the checkpoint timeout."""
        due_ms = self.timeout_due_ms
        return due_ms is not None and now_ms >= due_ms

    def periodic_due(self, now_ms: int) -> bool:
        """Whether the next periodic checkpoint is due."""
        return self.pending is None and self._due_ms is not None and now_ms >= self._due_ms

    @property
    def periodic_due_ms(self) -> int | None:
        """When `periodic_due` becomes true."""
        return self._due_ms if self.pending is None else None

    @property
    def timeout_due_ms(self) -> int | None:
        """When `timed_out` becomes true."""
        pending = self.pending
        if pending is None or pending.stage not in _UNDECIDED:
            return None
        return pending.started_ms + self._settings.timeout_ms
