"""The open epochs of a slot: which snapshots may be uploaded, and when an epoch is complete. Pure.

    order(..) and snapshotted(..) ──> take() ──> uploaded(..) ──> the epoch, once every subtask is in storage
                                                 refused(..)  ──> the epoch is declined
    give_up(..) ──> its waiting snapshots are dropped

A barrier may arrive from another slot before the TriggerEpoch of its epoch. A snapshot therefore waits until that
command has arrived: it says whether the state also goes into a savepoint.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace.checkpoint.manifest import SubtaskDocument
from headrace.rpc.figures import SubtaskBarrier

Snapshot = TypeVar("Snapshot")
"""A subtask's snapshot; this module does not look into it."""

EPOCHS_MAX = 8
"""Most epochs that may be open at once; the oldest one above that is declined."""
CLOSED_MAX = 64
"""This many closed epochs (acknowledged, declined, aborted) are remembered: their late snapshots are dropped."""


@dataclass(slots=True)
class SlotEpoch(Generic[Snapshot]):
    """An open epoch.

    begun_ms   when its first snapshot or its order came (monotonic)
    savepoint  None until the epoch is ordered, then the URL of a folder or empty
    bytes      written so far
    barriers   checkpoint statistics of the subtasks that are done, for display
    """

    number: int
    begun_ms: int
    savepoint: str | None = None
    waiting: deque[Snapshot] = field(default_factory=deque)
    done: list[SubtaskDocument] = field(default_factory=list)
    bytes: int = 0
    barriers: list[SubtaskBarrier] = field(default_factory=list)

    @property
    def documents(self) -> tuple[SubtaskDocument, ...]:
        """The documents of all subtasks, sorted by task."""
        return tuple(sorted(self.done, key=lambda done: done.task))


@dataclass(frozen=True, slots=True)
class Upload(Generic[Snapshot]):
    """The next upload. savepoint: URL of a folder to which the whole state is written too, or empty; begun_ms: as in
    `SlotEpoch`."""

    epoch: int
    savepoint: str
    snapshot: Snapshot
    begun_ms: int = field(default=0, compare=False)


class SlotEpochs(Generic[Snapshot]):
    """One slot's epochs. subtasks: how many subtasks make a snapshot for each epoch."""

    def __init__(self, subtasks: int) -> None:
        self._subtasks = subtasks
        self._open: dict[int, SlotEpoch[Snapshot]] = {}
        self._closed: deque[int] = deque(maxlen=CLOSED_MAX)

    def snapshotted(self, epoch: int, snapshot: Snapshot, now_ms: int) -> list[int]:
        """Adds a subtask's snapshot; returns the epochs to decline because more than `EPOCHS_MAX` are open."""
        if (known := self._opened(epoch, now_ms)) is not None:
            known.waiting.append(snapshot)
        overdue = sorted(self._open)[:-EPOCHS_MAX]
        for number in overdue:
            self._close(number)
        return overdue

    def order(self, epoch: int, savepoint: str, now_ms: int) -> None:
        """Orders the epoch: its snapshots may be uploaded from now on."""
        if (known := self._opened(epoch, now_ms)) is not None:
            known.savepoint = savepoint

    def give_up(self, epoch: int) -> None:
        """Closes an aborted epoch and drops its snapshots."""
        self._close(epoch)

    def take(self) -> Upload[Snapshot] | None:
        """The next snapshot to upload, lower epochs first: `StateFiles` requires snapshots in the order of epochs."""
        for number, epoch in sorted(self._open.items()):
            if epoch.savepoint is not None and epoch.waiting:
                return Upload(number, epoch.savepoint, epoch.waiting.popleft(), epoch.begun_ms)
        return None

    def uploaded(
        self, epoch: int, document: SubtaskDocument, size: int, barrier: SubtaskBarrier | None = None
    ) -> SlotEpoch[Snapshot] | None:
        """Notes that a snapshot is in storage; returns its epoch if that is complete now. size: bytes written."""
        known = self._open.get(epoch)
        if known is None:
            return None
        known.done.append(document)
        known.bytes += size
        if barrier is not None:
            known.barriers.append(barrier)
        return self._close(epoch) if len(known.done) == self._subtasks else None

    def refused(self, epoch: int) -> bool:
        """Closes an epoch whose snapshot storage refused; returns whether it was open and must be declined."""
        return self._close(epoch) is not None

    def _opened(self, epoch: int, now_ms: int) -> SlotEpoch[Snapshot] | None:
        if epoch in self._closed:
            return None
        return self._open.setdefault(epoch, SlotEpoch(epoch, now_ms))

    def _close(self, epoch: int) -> SlotEpoch[Snapshot] | None:
        self._closed.append(epoch)
        return self._open.pop(epoch, None)
