"""The events of the attempt machine: commands of the coordinator, answers of the uploader, and results of effects.

Shapes only. Commands (`rpc.messages.ToSlot`) and the uploader's Acked and Declined are events without a wrapper.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.rpc.messages import Acked, Declined, Failure, ToSlot

# ---- opening ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """LoadPlan is done: the slot has these tasks. report_interval_ms: the time between two status reports."""

    tasks: tuple[str, ...]
    report_interval_ms: int


@dataclass(frozen=True, slots=True)
class Connected:
    """Connect is done: every peer that this slot sends to has accepted the connection."""


@dataclass(frozen=True, slots=True)
class SubtasksOpened:
    """OpenSubtasks is done: every subtask has its state, its reader and its writers."""


# ---- running ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """The subtask of this task has reached the end of its input."""

    task: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A subtask, the uploader or the connection to a peer has failed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Tick:
    """No event came before `AttemptMachine.due_ms`."""


# ---- leaving ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubtasksJoined:
    """JoinSubtasks is done. late: names of the threads that still run."""

    late: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UploaderJoined:
    """StopUploader is done. late: its thread still runs."""

    late: bool


@dataclass(frozen=True, slots=True)
class PartsClosed:
    """CloseParts is done. errors: those of parts that did not close, as text."""

    errors: tuple[str, ...]


# ---- any time --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EffectFailed:
    """An effect raised this; the effects behind it in the same list were not executed."""

    failure: Failure


Event = (
    ToSlot
    | Acked
    | Declined
    | Planned
    | Connected
    | SubtasksOpened
    | TaskEnded
    | Broken
    | Tick
    | SubtasksJoined
    | UploaderJoined
    | PartsClosed
    | EffectFailed
)
