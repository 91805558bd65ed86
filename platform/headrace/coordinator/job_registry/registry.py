"""The registry of a coordinator's jobs: decides which job has an owner, which job holds a name, and how a request is
handled for a job without a driver. Pure: no I/O, no clock, no randomness, no event loop.

    submitted ──────────────────────────> DRIVEN ──driver ends──────────────────────> ENDING ──kept──> ENDED
                                           ^  │                                        │  ^
                               try is ready│  │its machine failed          not kept:   └──┘ kept again
                                           │  v                                            until it is
    read, without an end ───────────────> WAITING ──cancel──> ENDING ──kept────────────────────────> ENDED
                                           ^  │                 │
                                           │  │hopeless         │not kept
                                           │  v                 v
                                           │ LEFT ──cancel──> .. as above
                                           │                    │
                                           └──── withdrawn ── REOPENING ──cancel──> ENDING
                                                (or LEFT again)
    DRIVEN ──driver leaves it──> LEFT;   the coordinator ends ──> LEFT;   read, with an end ──> ENDED
    DRIVEN ──an earlier coordinator has written to the journal──> WAITING

Invariants between any two events:

1. A job has at most one owner: a driver, or the try with the newest number. The answer of any other try is stale, even
   if that try had read everything before the job was cancelled.
2. A job holds its name until its end is durable, even if this coordinator has left it: a later coordinator resumes
   every job without an end. A submission holds its name from before its first write until it is a job, or until it is
   certain that it is not on disk.
3. A request to end a job (cancel, stop) succeeds only when the end is durable. If a waiting job's end cannot be
   written, the cancel fails with that error. The job then continues to wait, but has no owner before it is certain that
   the end is not on disk.
4. A driver that is over is never used again. The write of its end is repeated until the job store has it.
5. Every request is answered at the latest at the end of the job, of the try to end it, or of the coordinator.

The caller's duties: handle one event at a time; perform effects in order; answer each effect that promises an event
with one of them; perform effects on the job store that name the same job one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from headrace.coordinator.job_registry import effects as do
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Entry, Phase
from headrace.coordinator.rest.service import JobConflictError
from headrace.core.errors import Domain, ExternalError
from headrace.rpc.messages import Failure

REQUESTS_MAX = 100
"""Stops and cancels that may wait for one job."""


class Registry:
    """All jobs of a coordinator. retry_s: delay between two tries; breaks_max: after so many failed state machines the
    job fails.
    """

    def __init__(self, *, retry_s: float, breaks_max: int) -> None:
        self._retry_s = retry_s
        self._breaks_max = breaks_max
        self._jobs: dict[str, Entry] = {}
        self._submitting: dict[str, str] = {}
        """Job -> name of submissions in progress, and of failed ones that may be on disk."""
        self._started = self._closing = False
        self._effects: list[do.Effect] = []

    @property
    def jobs(self) -> Mapping[str, Entry]:
        """All jobs by id. Raises ExternalError until they are read."""
        self.require_started()
        return self._jobs

    def require_started(self) -> None:
        """Raises ExternalError until the jobs are read."""
        if not self._started:
            raise ExternalError("the coordinator is starting: it reads its jobs", remedy="ask again", retry=True)

    def handle(self, event: on.Event) -> list[do.Effect]:  # noqa: PLR0912 - one line an event
        """Returns the effects. A refused request raises JobConflictError or ExternalError, and changes nothing."""
        self._effects = []
        match event:
            case on.JobsRead(jobs):
                self._on_read(jobs)
            case on.Closing():
                self._on_closing()
            case on.SubmitAsked():
                self._on_submit(event)
            case on.SubmitKept(job):
                self._on_accepted(job)
            case on.SubmitFailed() | on.Discarded() | on.NotDiscarded():
                self._on_submit_failed(event)
            case on.TryReady() | on.TryAway() | on.TryHopeless():
                self._on_try(event)
            case on.DriveFailed(job, reason):
                self._on_drive_failed(self._jobs[job], reason)
            case on.MachineFailed():
                self._on_machine_failed(self._jobs[event.job], event)
            case on.DriverEnded():
                self._on_driver_ended(self._jobs[event.job], event)
            case on.Answered():
                self._on_answered(event)
            case on.StopAsked(job, stop):
                self._on_stop(self.jobs[job], stop)
            case on.StopDue():
                self._on_stop_due(event)
            case on.CancelAsked(job, request):
                self._on_cancel(self.jobs[job], request)
            case on.EndKept(job, forgotten):
                self._on_kept(self._jobs[job], forgotten)
            case on.EndNotKept(job, failure):
                self._on_not_kept(self._jobs[job], failure)
            case on.EndWithdrawn(job):
                self._on_withdrawn(self._jobs[job])
            case on.EndNotWithdrawn(job, failure):
                self._on_not_withdrawn(self._jobs[job], failure)
            case _:
                assert_never(event)
        return self._effects

    def require_driven(self, job: str) -> None:
        """Raises JobConflictError if the job has no driver."""
        entry = self.jobs[job]
        if entry.phase is not Phase.DRIVEN:
            raise _not_driven(entry)

    # ---- start and end -------------------------------------------------------------------------------------------

    def _on_read(self, jobs: Iterable[on.ReadJob]) -> None:
        self._started = True
        for each in jobs:
            phase = Phase.WAITING if each.end is None else Phase.ENDED
            entry = self._jobs[each.job] = Entry(each.job, each.name, phase, self._retry_s, end=each.end)
            if phase is Phase.WAITING:
                self._wait(entry, 0.0)

    def _on_closing(self) -> None:
        self._closing = True
        for entry in self._jobs.values():
            match entry.phase:
                case Phase.DRIVEN:
                    self._effects.append(do.Suspend(entry.job))
                case Phase.WAITING:
                    self._abandon_try(entry)
                    self._leave(entry, "the coordinator ends")
                case _:
                    # writes and deletes of ends that are in progress are still completed: the caller waits for them
                    pass

    def _leave(self, entry: Entry, reason: str, *, elsewhere: bool = False) -> None:
        """Puts the job into LEFT: it has no owner here any more. Fails its requests."""
        entry.phase, entry.waits_for, entry.elsewhere = Phase.LEFT, reason, elsewhere
        failure = Failure(f"job {entry.job} is {entry.state}: {entry.why}", Domain.EXTERNAL.value, retry=True)
        self._refuse_requests(entry, failure)

    def _refuse_requests(self, entry: Entry, failure: Failure) -> None:
        """Fails every request that waits for the job or its end."""
        held = [answer.request for answer in entry.held]
        for request in (*held, *entry.cancels, *(stop.request for stop in entry.stops)):
            self._effects.append(do.Answer(request, failure=failure))
        entry.held, entry.cancels, entry.stops = [], [], []

    # ---- submitting ----------------------------------------------------------------------------------------------

    def _on_submit(self, asked: on.SubmitAsked) -> None:
        jobs = self.jobs
        if self._closing:
            raise ExternalError("the coordinator ends", remedy="submit it when the next one has started", retry=True)
        if not asked.allow_duplicate:
            self._require_free_name(jobs.values(), asked.name)
        self._submitting[asked.job] = asked.name

    def _require_free_name(self, entries: Iterable[Entry], name: str) -> None:
        holder = next((entry for entry in entries if entry.name == name and entry.holds_name), None)
        if holder is not None:
            raise JobConflictError(
                f"job {holder.job} of that name ({name}) {_standing(holder)}",
                remedy="upgrade, stop or cancel it; or submit with --allow-duplicate",
            )
        if name in self._submitting.values():
            raise JobConflictError(
                f"a job of that name ({name}) is being submitted just now", remedy="or submit with --allow-duplicate"
            )

    def _on_accepted(self, job: str) -> None:
        name = self._submitting.pop(job)
        entry = self._jobs[job] = Entry(job, name, Phase.DRIVEN, self._retry_s)
        if self._closing:
            # `Closing` has suspended the drivers already, so no driver is started; the next coordinator resumes the job
            self._leave(entry, "the coordinator ends")
        else:
            self._effects.append(do.Drive(job))

    def _on_submit_failed(self, event: on.SubmitFailed | on.Discarded | on.NotDiscarded) -> None:
        match event:
            case on.SubmitFailed(job, stored=True):
                # if job.json is on disk, the next coordinator runs the job: the name stays taken until it is deleted
                self._effects.append(do.Discard(job))
            case on.NotDiscarded(job) if not self._closing:
                self._effects.append(do.Discard(job, self._retry_s))
            case _:
                self._submitting.pop(event.job, None)

    # ---- tries ---------------------------------------------------------------------------------------------------

    def _wait(self, entry: Entry, delay_s: float) -> None:
        entry.phase, entry.end, entry.back = Phase.WAITING, None, None
        entry.tries += 1
        self._effects.append(do.Try(entry.job, entry.tries, delay_s))

    def _abandon_try(self, entry: Entry) -> None:
        entry.tries += 1
        self._effects.append(do.AbandonTry(entry.job))

    def _on_try(self, event: on.TryReady | on.TryAway | on.TryHopeless) -> None:
        entry = self._jobs.get(event.job)
        # invariant 1: only the newest try makes an owner
        if entry is None or entry.phase is not Phase.WAITING or entry.tries != event.number:
            # the job was cancelled, or the coordinator ends: a try that was in progress must not start a driver
            return
        match event:
            case on.TryReady():
                self._drive(entry)
            case on.TryAway(reason=reason):
                entry.waits_for = reason
                self._wait(entry, self._retry_s)
            case on.TryHopeless(reason=reason):
                self._leave(entry, reason)
            case _:
                assert_never(event)

    def _drive(self, entry: Entry) -> None:
        entry.phase, entry.waits_for = Phase.DRIVEN, ""
        entry.posted = [stop.request for stop in entry.stops]
        self._effects.append(do.Drive(entry.job, tuple(entry.stops)))
        entry.stops = []

    # ---- drivers -------------------------------------------------------------------------------------------------

    def _on_drive_failed(self, entry: Entry, reason: str) -> None:
        # no driver can answer the posted requests
        entry.cancels, entry.posted = [*entry.cancels, *entry.posted], []
        self._leave(entry, reason)

    def _on_machine_failed(self, entry: Entry, event: on.MachineFailed) -> None:
        entry.breaks += 1
        self._refuse_requests(entry, event.failure)
        if self._closing:
            self._leave(entry, "")
        elif event.again and entry.breaks < self._breaks_max:
            self._wait(entry, self._retry_s)
        else:
            self._conclude(entry, on.End("FAILED", failure=event.failure), None)

    def _on_driver_ended(self, entry: Entry, event: on.DriverEnded) -> None:
        # the driver itself answers the requests that were posted to it before its end
        if event.end is not None:
            self._conclude(entry, event.end, None)
        elif event.again and not self._closing:
            # at once: a coordinator that has lost its workers writes nothing more
            self._wait(entry, 0.0)
        else:
            self._leave(entry, "", elsewhere=not self._closing)

    def _on_answered(self, event: on.Answered) -> None:
        entry = self._jobs.get(event.job)
        answer = do.Answer(event.request, event.path, event.failure, event.note)
        if entry is None or event.request not in entry.posted:
            self._effects.append(answer)
            return
        entry.posted.remove(event.request)
        # invariant 3: success waits for the job store
        if event.failure is None and entry.phase in {Phase.DRIVEN, Phase.ENDING}:
            # The end may be missing in the journal, because the job ends even if its storage is unreachable. If this
            # coordinator died now, before the job store has the end, the next one would resume the job.
            entry.held.append(answer)
        else:
            self._effects.append(answer)

    # ---- users ---------------------------------------------------------------------------------------------------

    def _on_stop(self, entry: Entry, stop: on.Stop) -> None:
        match entry.phase:
            case Phase.DRIVEN:
                entry.posted.append(stop.request)
                self._effects.append(do.PostStop(entry.job, stop))
            case Phase.WAITING:
                _require_room(entry, len(entry.stops))
                entry.stops.append(stop)
                self._effects.append(do.Progress(stop.request, f"waits for the job to go on: {entry.waits_for}"))
                self._effects.append(do.WatchStop(entry.job, stop))
            case _:
                raise _not_driven(entry)

    def _on_stop_due(self, event: on.StopDue) -> None:
        """Ends a job that still waits when the time of its stop is over, as a cancel does. A job with a driver needs
        nothing: the driver's machine has the same bound."""
        entry = self._jobs.get(event.job)
        stop = None if entry is None else next((each for each in entry.stops if each.request == event.request), None)
        if entry is None or stop is None:
            return
        if entry.phase is not Phase.WAITING:
            # its cancel may not be kept, and then it waits again
            self._effects.append(do.WatchStop(entry.job, stop))
            return
        self._abandon_try(entry)
        entry.held += [do.Answer(each.request, event.path, note=event.note) for each in entry.stops]
        entry.stops = []
        self._conclude(entry, on.End("CANCELED"), Phase.WAITING)

    def _on_cancel(self, entry: Entry, request: str) -> None:
        """Cancels a job. For a job without a driver the end is written to the job store only, because its journal may
        be unreachable."""
        _require_room(entry, len(entry.cancels))
        match entry.phase:
            case Phase.DRIVEN:
                entry.posted.append(request)
                self._effects.append(do.PostCancel(entry.job, request))
            case Phase.WAITING:
                self._abandon_try(entry)
                entry.cancels.append(request)
                self._conclude(entry, on.End("CANCELED"), Phase.WAITING)
            case Phase.LEFT if not (entry.elsewhere or self._closing):
                entry.cancels.append(request)
                self._conclude(entry, on.End("CANCELED"), Phase.LEFT)
            case Phase.REOPENING:
                # handled after the answer to WithdrawEnd: the write of this end must not overtake that delete
                entry.cancels.append(request)
            case Phase.ENDING if entry.end is not None and entry.end.state == "CANCELED":
                entry.cancels.append(request)
            case _:
                raise _not_driven(entry)

    # ---- ends ----------------------------------------------------------------------------------------------------

    def _conclude(self, entry: Entry, end: on.End, back: Phase | None) -> None:
        entry.phase, entry.end, entry.back = Phase.ENDING, end, back
        self._effects.append(do.KeepEnd(entry.job, end))

    def _on_kept(self, entry: Entry, forgotten: Iterable[str]) -> None:
        entry.phase, entry.waits_for, entry.unkept, entry.back = Phase.ENDED, "", "", None
        self._effects += entry.held
        self._effects += [do.Answer(request) for request in entry.cancels]
        entry.held, entry.cancels = [], []
        self._refuse_requests(entry, Failure("the job was canceled", Domain.USER.value, retry=False))
        for job in forgotten:
            if (other := self._jobs.get(job)) is not None and other.phase is Phase.ENDED:
                del self._jobs[job]
                self._effects.append(do.Forget(job))

    def _on_not_kept(self, entry: Entry, failure: Failure) -> None:
        assert entry.end is not None, "an end was to be kept"
        self._effects += [do.Answer(answer.request, failure=failure) for answer in entry.held]
        self._effects += [do.Answer(request, failure=failure) for request in entry.cancels]
        entry.held, entry.cancels, entry.unkept = [], [], failure.message
        # a job without a driver returns to its phase, but the failed write may have reached the disk: the end is
        # deleted first
        if entry.back is not None:
            entry.phase = Phase.REOPENING
            self._effects.append(do.WithdrawEnd(entry.job))
        elif not self._closing:
            # the job's driver is over, so the job cannot return to a phase: the write is repeated until it succeeds
            self._effects.append(do.KeepEnd(entry.job, entry.end, self._retry_s))

    def _on_withdrawn(self, entry: Entry) -> None:
        entry.unkept = ""
        if entry.cancels:
            self._conclude(entry, on.End("CANCELED"), entry.back)
        elif self._closing:
            self._leave(entry, "the coordinator ends")
        elif entry.back is Phase.WAITING:
            self._wait(entry, self._retry_s)
        else:
            entry.phase, entry.end, entry.back = Phase.LEFT, None, None

    def _on_not_withdrawn(self, entry: Entry, failure: Failure) -> None:
        if entry.cancels:
            self._conclude(entry, on.End("CANCELED"), entry.back)
        elif self._closing:
            self._refuse_requests(entry, failure)
        else:
            self._effects.append(do.WithdrawEnd(entry.job, self._retry_s))


def _standing(holder: Entry) -> str:
    """Returns why the job's name is taken."""
    match holder.phase:
        case Phase.DRIVEN:
            return "runs already"
        case Phase.WAITING:
            return f"waits to go on: {holder.waits_for or 'it is read'}"
        case _:
            return f"is {holder.state}: {holder.why}"


def _not_driven(entry: Entry) -> JobConflictError:
    why = "" if entry.phase is Phase.ENDED else f": {entry.why}"
    return JobConflictError(f"job {entry.job} ({entry.name}) is {entry.state}{why}")


def _require_room(entry: Entry, waiting: int) -> None:
    if waiting >= REQUESTS_MAX:
        raise JobConflictError(
            f"{waiting} requests wait for job {entry.job} ({entry.name})", remedy="wait until they are answered"
        )
