"""A user's request to stop a job, and its bound. Pure: times are arguments.

    asked ───────────────────────────────> gives up ──────────> due
          a last checkpoint may be taken            the job ends

A stop ends with a last epoch, which needs an attempt that runs. If none is complete when the stop gives up, the job
ends at its last complete checkpoint (`states.ending_early`).
"""

from __future__ import annotations

from dataclasses import dataclass

LEAVE_SHARE = 4
"""The last quarter of a stop's time is for the end itself: slots exit, and decided output is committed."""
LEAVE_MS_MAX = 10_000
"""The most of that, in ms."""


@dataclass(slots=True)
class StopRequest:
    """A stop in progress.

    id         of the user's request; empty if the stop was read from the journal
    within_ms  the bound
    due_ms     the time by which the job ends
    folder     URL of the folder of its savepoint; None: it takes a checkpoint only
    drain      time advances to its end first
    why        the reason why no last checkpoint was taken; empty: it may still be
    """

    id: str
    within_ms: int
    due_ms: int
    folder: str | None = None
    drain: bool = False
    why: str = ""

    @property
    def leave_ms(self) -> int:
        """The time that is reserved for the end itself."""
        return min(self.within_ms // LEAVE_SHARE, LEAVE_MS_MAX)

    @property
    def gives_up_ms(self) -> int:
        """The time from which on no last checkpoint is waited for."""
        return self.due_ms - self.leave_ms

    @property
    def needs_attempt(self) -> bool:
        """Whether an attempt must run to fulfil it even though the last complete checkpoint has every row that was
        read: it writes a savepoint, or advances time to its end."""
        return self.folder is not None or self.drain
