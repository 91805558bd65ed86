"""The event that a job's machine receives when an effect fails unexpectedly. Pure.

Effects promise events (`effects`). After a decision in the journal the machine waits for such an event without a time
limit, so an effect that raises must not leave the machine without one. The driver posts the effect's failure event
instead, and the attempt or the job fails with the cause. An effect that promises no event has no failure event; its
failure is only logged.

An effect may raise after its event was posted. Then the failure event is ignored, or it fails an attempt that had no
other problem. Both are safe: a failure event may arrive at any time.
"""

from __future__ import annotations

from typing import assert_never

from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.rpc.messages import Failure


def failure_event(effect: do.Effect, failure: Failure) -> on.Event | None:
    """Returns the event that replaces the promised one after an effect raised; None if the effect promises none."""
    match effect:
        case (
            do.ReadJournal()
            | do.WriteAttempt()
            | do.WriteCheckpoint()
            | do.WriteCommitted()
            | do.WriteStopping()
            | do.WriteFinished()
        ):
            return on.JournalFailed(failure)
        case do.RequestSlots() | do.DeploySlots() | do.SendAll():
            return on.SlotFailed(0, failure)
        case do.Send(index):
            return on.SlotFailed(index, failure)
        case do.ReleaseSlots():
            # slots that could not be ended do not disturb the next attempt: its slots refuse their connections, and the
            # driver drops their messages
            return on.SlotsReleased()
        case do.OpenHost():
            return on.ConnectorHostFailed(failure)
        case do.Describe(epoch):
            return on.DescribeFailed(epoch, failure)
        case do.Commit(epoch):
            return on.CommitFailed(epoch, failure)
        case do.Fence(attempt):
            return on.FenceFailed(attempt, failure)
        case do.WriteSavepoint(manifest):
            return on.SavepointFailed(manifest.epoch, failure)
        case (
            do.CloseHost()
            | do.Discover()
            | do.Sweep()
            | do.Prune()
            | do.Answer()
            | do.RecordException()
            | do.Alarm()
            | do.Entered()
            | do.Ended()
        ):
            return None
        case _:
            assert_never(effect)
