"""Watches what one simulated slot says, and knows what its parts have done: no word may claim more than that.

A word comes in time: nothing but an end before Deployed, nothing after the end. It is true: every subtask has ended,
every snapshot is stored, every thread has ended or had its grace period. The last word is Left if a command ended the
attempt, and Failed if something failed before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.rpc.messages import (
    Acked,
    CancelSlot,
    Declined,
    Deployed,
    Failed,
    FinishSlot,
    FromSlot,
    InputEnded,
    Left,
)
from headrace.worker.slot.attempt.events import Broken, EffectFailed, Event
from sim.processes.subtasks import TASKS
from sim.world import ViolationError

if TYPE_CHECKING:
    from sim.processes.slot import Slot


class SlotAuditor:
    """One slot's. grace_ms: what its threads may take to end."""

    def __init__(self, slot: Slot, grace_ms: int) -> None:
        self._slot = slot
        self._grace_ms = grace_ms
        self._words: list[type[FromSlot]] = []
        self._end: type[FromSlot] | None = None
        """The last word that is due: the first event that ends the attempt decides it."""
        self._deferred: type[FromSlot] | None = None
        """The same, of events that wait until the attempt is deployed."""
        self._reported = False
        self._leaving_ms: int | None = None
        self._stopping_ms: int | None = None

    # ---- what happens in the slot --------------------------------------------------------------------------------

    def handles(self, event: Event) -> None:
        """The machine is given an event."""
        if not self._slot.busy or self._end is not None:
            return
        match event:
            case CancelSlot():
                self._end = Left
            case EffectFailed():
                self._end = Failed
            case FinishSlot() | Broken():
                end: type[FromSlot] = Left if isinstance(event, FinishSlot) else Failed
                if Deployed in self._words:
                    self._end = end
                else:
                    self._deferred = self._deferred or end
            case _:
                pass

    def reported(self) -> None:
        """A status report is made."""
        self._reported = True

    def leaves(self) -> None:
        """Threads of subtasks are asked to end."""
        if self._leaving_ms is None:
            self._leaving_ms = self._slot.world.now_ms

    def stops_uploads(self) -> None:
        """The uploader is asked to end."""
        self._stopping_ms = self._slot.world.now_ms

    # ---- words ---------------------------------------------------------------------------------------------------

    def says(self, word: FromSlot) -> None:
        """The slot says something."""
        kind = type(word)
        if {Left, Failed}.intersection(self._words):
            raise self._violation(f"says {kind.__name__} after its last word")
        if kind not in {Deployed, Left, Failed} and Deployed not in self._words:
            raise self._violation(f"says {kind.__name__} before it is deployed")
        if isinstance(word, Acked | Declined | InputEnded) and not self._reported:
            raise self._violation(f"says {kind.__name__} without the counts that belong to it")
        self._require_true(word)
        self._words.append(kind)
        self._reported = False
        if kind is Deployed:
            self._end = self._deferred

    def _require_true(self, word: FromSlot) -> None:
        subtasks, uploads = self._slot.subtasks, self._slot.uploads
        match word:
            case Deployed() if subtasks is None or not subtasks.started:
                raise self._violation("is not open, but says that it is")
            case Deployed() if self._end is not None:
                raise self._violation("says that it is open, but it is to leave")
            case InputEnded() if InputEnded in self._words or subtasks is None or subtasks.ended != set(TASKS):
                raise self._violation("says that its input has ended, but it has not, or that was said")
            case Acked(epoch=epoch) if uploads is None or uploads.stored.get(epoch) != set(TASKS):
                raise self._violation(f"acknowledges epoch {epoch}, but not every snapshot is stored")
            case Left() | Failed():
                self._require_end(type(word))
            case _:
                pass

    def _require_end(self, kind: type[FromSlot]) -> None:
        if kind is not self._end:
            due = "no end" if self._end is None else self._end.__name__
            raise self._violation(f"says {kind.__name__}, but {due} is due")
        subtasks, uploads = self._slot.subtasks, self._slot.uploads
        if subtasks is not None and subtasks.late and not self._waited(self._leaving_ms):
            raise self._violation(f"says {kind.__name__}, but its subtasks run")
        if uploads is not None and uploads.busy and not self._waited(self._stopping_ms):
            raise self._violation(f"says {kind.__name__}, but uploads")

    def _waited(self, since_ms: int | None) -> bool:
        return since_ms is not None and self._slot.world.now_ms - since_ms >= self._grace_ms

    def _violation(self, what: str) -> ViolationError:
        return ViolationError(f"slot {self._slot.name} {what}")
