"""The states of a job and their transitions. The machine checks transitions by this table, and docs/job-states.md is
generated from it.

CREATED ─> SCHEDULING ─> DEPLOYING ─> RUNNING ─> FINISHED
              ^  │            │        │ │ └──> RESCALING ──> SCHEDULING
              │  └────────────┴──> RESTARTING <─┤
              └────────────────────────┘        └──> STOPPING ──> FINISHED
any of them ─> CANCELLING ─> CANCELED;   a failure without a restart ─> FAILING ─> FAILED;
a stop that takes no last checkpoint in time ─> CANCELLING ─> FINISHED;
the coordinator ends, or is replaced ─> SUSPENDED
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """The state of a job."""

    CREATED = "CREATED"
    """Accepted; its journal has not been read."""
    SCHEDULING = "SCHEDULING"
    """Reads the journal, finishes decided epochs, waits for slots and for its sources to be resolved."""
    DEPLOYING = "DEPLOYING"
    """Its attempt is recorded; slots open and restore their subtasks."""
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    """Failed; waits before it is scheduled again."""
    RESCALING = "RESCALING"
    """Takes the checkpoint from which it continues with another parallelism."""
    STOPPING = "STOPPING"
    """Takes its last savepoint; emits nothing after it."""
    CANCELLING = "CANCELLING"
    """Ends at its last complete checkpoint, because a cancel was requested, or because a stop took no other one."""
    FAILING = "FAILING"
    SUSPENDED = "SUSPENDED"
    """This coordinator has left it; another one continues it from its journal."""
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        """Whether no state follows."""
        return self in TERMINAL


TERMINAL = frozenset({JobState.FINISHED, JobState.CANCELED, JobState.FAILED, JobState.SUSPENDED})
ENDING = TERMINAL | {JobState.CANCELLING, JobState.FAILING}
"""The states that start no attempt and no epoch."""

_ENDS = TERMINAL
"""CANCELLING and FAILING read the journal first, and the job may have ended already, in another way: so any end may
follow them."""
_LEAVES = frozenset({JobState.CANCELLING, JobState.FAILING, JobState.SUSPENDED})

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.CREATED: frozenset({JobState.SCHEDULING}) | _LEAVES,
    JobState.SCHEDULING: frozenset(
        {JobState.DEPLOYING, JobState.RESTARTING, JobState.FINISHED, JobState.CANCELED, JobState.FAILED}
    )
    | _LEAVES,
    JobState.DEPLOYING: frozenset({JobState.RUNNING, JobState.STOPPING, JobState.RESTARTING}) | _LEAVES,
    JobState.RUNNING: frozenset({JobState.RESTARTING, JobState.RESCALING, JobState.STOPPING, JobState.FINISHED})
    | _LEAVES,
    JobState.RESTARTING: frozenset({JobState.SCHEDULING}) | _LEAVES,
    JobState.RESCALING: frozenset({JobState.SCHEDULING, JobState.RESTARTING}) | _LEAVES,
    JobState.STOPPING: frozenset({JobState.RESTARTING, JobState.FINISHED}) | _LEAVES,
    JobState.CANCELLING: _ENDS,
    JobState.FAILING: _ENDS,
    JobState.SUSPENDED: frozenset(),
    JobState.FINISHED: frozenset(),
    JobState.CANCELED: frozenset(),
    JobState.FAILED: frozenset(),
}
"""State -> the states that may follow it."""
