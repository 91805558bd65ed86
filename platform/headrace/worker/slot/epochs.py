"""The epochs that a slot has under way: which snapshots may be uploaded, and when an epoch is complete. Pure.

    order(..) and snapshotted(..) ──> take() ──> uploaded(..) ──> the epoch, once every subtask is in storage
                                                 refused(..)  ──> the epoch is declined
    give_up(..) ──> what still waits for it is dropped

A barrier may overtake the command of its epoch (it comes from another slot), so a snapshot waits until its epoch is
ordered: only then it is known whether the state goes into a savepoint as well.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace.checkpoint.manifest import SubtaskDocument

Snapshot = TypeVar("Snapshot")
"""What a subtask gives for an epoch; nothing of it is read here."""

EPOCHS_MAX = 8
"""Epochs that may wait; the oldest is declined when there are more."""
CLOSED_MAX = 64
"""Epochs remembered as acknowledged or given up, so that late snapshots of them are dropped."""


@dataclass(slots=True)
class SlotEpoch(Generic[Snapshot]):
    """An epoch under way. savepoint: None until it is ordered, then a URL or empty; bytes: written so far."""

    number: int
    begun_ms: int
    savepoint: str | None = None
    waiting: deque[Snapshot] = field(default_factory=deque)
    done: list[SubtaskDocument] = field(default_factory=list)
    bytes: int = 0

    @property
    def documents(self) -> tuple[SubtaskDocument, ...]:
        """Those of all subtasks, by task."""
        return tuple(sorted(self.done, key=lambda done: done.task))


@dataclass(frozen=True, slots=True)
class Upload(Generic[Snapshot]):
    """What is to be uploaded next. savepoint: URL of a folder that gets the whole state too, or empty."""

    epoch: int
    savepoint: str
    snapshot: Snapshot


class SlotEpochs(Generic[Snapshot]):
    """One slot's epochs. subtasks: how many give a snapshot for each epoch."""

    def __init__(self, subtasks: int) -> None:
        self._subtasks = subtasks
        self._open: dict[int, SlotEpoch[Snapshot]] = {}
        self._closed: deque[int] = deque(maxlen=CLOSED_MAX)

    def snapshotted(self, epoch: int, snapshot: Snapshot, now_ms: int) -> list[int]:
        """Takes a subtask's snapshot; returns the epochs that are declined because too many wait."""
        if (known := self._opened(epoch, now_ms)) is not None:
            known.waiting.append(snapshot)
        overdue = sorted(self._open)[:-EPOCHS_MAX]
        for number in overdue:
            self._close(number)
        return overdue

    def order(self, epoch: int, savepoint: str, now_ms: int) -> None:
        """The epoch was begun: its snapshots may be uploaded."""
        if (known := self._opened(epoch, now_ms)) is not None:
            known.savepoint = savepoint

    def give_up(self, epoch: int) -> None:
        """The epoch was aborted."""
        self._close(epoch)

    def take(self) -> Upload[Snapshot] | None:
        """The next snapshot, lower epochs first: chunks that are gone are forgotten in order."""
        for number, epoch in sorted(self._open.items()):
            if epoch.savepoint is not None and epoch.waiting:
                return Upload(number, epoch.savepoint, epoch.waiting.popleft())
        return None

    def uploaded(self, epoch: int, document: SubtaskDocument, size: int) -> SlotEpoch[Snapshot] | None:
        """A snapshot is in storage; returns its epoch if that is complete now. size: bytes written."""
        known = self._open.get(epoch)
        if known is None:
            return None
        known.done.append(document)
        known.bytes += size
        return self._close(epoch) if len(known.done) == self._subtasks else None

    def refused(self, epoch: int) -> bool:
        """Storage refused a snapshot; returns whether the epoch was open, and so is to be declined."""
        return self._close(epoch) is not None

    def _opened(self, epoch: int, now_ms: int) -> SlotEpoch[Snapshot] | None:
        if epoch in self._closed:
            return None
        return self._open.setdefault(epoch, SlotEpoch(epoch, now_ms))

    def _close(self, epoch: int) -> SlotEpoch[Snapshot] | None:
        self._closed.append(epoch)
        return self._open.pop(epoch, None)
