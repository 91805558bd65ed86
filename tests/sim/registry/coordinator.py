"""A coordinator process: the real registry, and a shell that performs its effects as `registry_shell` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from headrace.coordinator.job_registry import effects as do
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Phase
from headrace.coordinator.job_registry.registry import Registry
from headrace.coordinator.rest.service import JobConflictError
from headrace.core.errors import ExternalError
from headrace.rpc.messages import Failure
from sim.registry.driver import Driver
from sim.world import Process, ViolationError

if TYPE_CHECKING:
    from sim.registry.home import Home

RETRY_S = 5.0
BREAKS_MAX = 3
STOP_WITHIN_MS = 15_000
LOOK_MS = 30_000
"""How long a try waits for storage that hangs."""
CLOSE_MS = 10_000
"""How long the end of a coordinator waits for the job store."""


class Coordinator(Process):
    """One run of the coordinator. `asked`: request -> (job, kind), for those that are not answered."""

    def __init__(self, home: Home, name: str) -> None:
        super().__init__(home.world, name)
        self._home = home
        self.registry = Registry(retry_s=RETRY_S, breaks_max=BREAKS_MAX)
        self.drivers: dict[str, Driver] = {}
        self.tries: dict[str, int] = {}
        """Job -> number of the try that may make it driven."""
        self.asked: dict[str, tuple[str, str]] = {}
        self.started = self.closing = False
        self.after(self.world.delay_ms(), self._start)

    def _start(self) -> None:
        self.started = True
        stored = self._home.store.jobs
        for job, each in stored.items():
            if each.end is not None:
                self._home.auditor.end_kept(job)
        self.handle(on.JobsRead(tuple(on.ReadJob(job, each.name, each.end) for job, each in stored.items())))

    def handle(self, event: on.Event) -> None:
        """Lets the registry decide, and performs that."""
        for effect in self.registry.handle(event):
            self._perform(effect)
        self._home.auditor.looked(self)

    def close(self) -> None:
        """SIGTERM."""
        if self.closing:
            return
        self.closing = True
        self.handle(on.Closing())
        self.after(CLOSE_MS + 10_000, self._closed)

    def _closed(self) -> None:
        self._home.auditor.closed(self)
        self.kill()

    # ---- users ---------------------------------------------------------------------------------------------------

    def submit(self, job: str, name: str, *, duplicate: bool) -> None:
        """A user submits; the auditor receives the answer."""
        try:
            self.handle(on.SubmitAsked(job, name, duplicate))
        except (JobConflictError, ExternalError) as error:
            self.world.tell(f"{self.name}: {error.message}")
            return
        self.after(self.world.delay_ms(), lambda: self._prepared(job, name))

    def _prepared(self, job: str, name: str) -> None:
        if self.world.happens(self._home.story.unprepared):
            self.handle(on.SubmitFailed(job, stored=False))
            return

        def written(failure: Failure | None) -> None:
            if failure is not None:
                self.handle(on.SubmitFailed(job, stored=True))
                return
            self._home.auditor.accepted(job)
            self.handle(on.SubmitKept(job))

        self._home.store.add(self, job, name, written)

    def ask(self, request: str, job: str, kind: str) -> None:
        """A user wants a job to end."""
        stop = on.Stop(request, None, drain=False, within_ms=STOP_WITHIN_MS)
        event: on.Event = on.CancelAsked(job, request) if kind == "cancel" else on.StopAsked(job, stop)
        try:
            known = job in self.registry.jobs
            self.asked[request] = (job, kind)
            if known:
                self.handle(event)
            else:
                del self.asked[request]
        except (JobConflictError, ExternalError) as error:
            self.asked.pop(request, None)
            self.world.tell(f"{self.name}: {kind} of {job}: {error.message}")

    # ---- effects -------------------------------------------------------------------------------------------------

    def _perform(self, effect: do.Effect) -> None:  # noqa: PLR0912 - one line an effect
        if not isinstance(effect, do.Progress):
            self.world.tell(f"{self.name}: {effect}")
        match effect:
            case do.Try(job, number, delay_s):
                if job in self.tries or job in self.drivers:
                    raise ViolationError(f"job {job} is tried, and has another owner")
                self.tries[job] = number
                self.after(round(delay_s * 1000), lambda: self._try(job, number))
            case do.AbandonTry(job):
                # its thread goes on, and may answer
                self.tries.pop(job, None)
            case do.Drive(job, stops):
                self._drive(job, stops)
            case do.PostStop(job, stop):
                self.drivers[job].stop(stop.request)
            case do.WatchStop(job, stop):
                self.after(stop.within_ms, lambda: self._stop_due(job, stop.request))
            case do.PostCancel(job, request):
                self.drivers[job].cancel(request)
            case do.Suspend(job):
                self.drivers[job].suspend()
            case do.KeepEnd(job, end, delay_s):
                self.after(round(delay_s * 1000), lambda: self._keep(job, end))
            case do.WithdrawEnd(job, delay_s):
                self.after(round(delay_s * 1000), lambda: self._withdraw(job))
            case do.Discard(job, delay_s):
                self.after(round(delay_s * 1000), lambda: self._discard(job))
            case do.Answer(request, _, failure):
                self._answer(request, failure)
            case do.Progress(request):
                if request not in self.asked:
                    raise ViolationError(f"{request} is noted, and nobody waits for it")
            case do.Forget(job):
                raise ViolationError(f"job {job} is forgotten, and the store has it")
            case _:
                assert_never(effect)

    def _answer(self, request: str, failure: Failure | None) -> None:
        if request not in self.asked:
            raise ViolationError(f"{request} is answered, and nobody waits for it")
        job, kind = self.asked.pop(request)
        if failure is None:
            self._home.auditor.told_end(job, f"the answer to a {kind}")

    def _stop_due(self, job: str, request: str) -> None:
        self._home.auditor.stop_due(self, job, request)
        self.handle(on.StopDue(job, request, None, "it has waited for too long"))
        if request in self.asked and self.phase(job) is Phase.WAITING:
            raise ViolationError(f"the time of {request} is over, and job {job} waits on")

    # ---- tries and drivers ---------------------------------------------------------------------------------------

    def _try(self, job: str, number: int) -> None:
        now_ms, outside = self.world.now_ms, self._home.outside[job]
        reply: Callable[[], None]
        if now_ms < outside.hangs_until_ms:
            delay_ms = min(LOOK_MS, outside.hangs_until_ms - now_ms)
            reply = lambda: self._tried(on.TryAway(job, number, "it has not answered for 30 s"))  # noqa: E731
            self.after(delay_ms, reply)
            return
        event: on.Event = on.TryReady(job, number)
        if now_ms < outside.hopeless_until_ms:
            event = on.TryHopeless(job, number, "its savepoint is gone")
        elif now_ms < outside.away_until_ms:
            event = on.TryAway(job, number, "its storage is away")
        self.after(self.world.delay_ms(), lambda: self._tried(event))

    def _tried(self, event: on.Event) -> None:
        assert isinstance(event, on.TryReady | on.TryAway | on.TryHopeless)
        is_stale = self.tries.get(event.job) != event.number
        if not is_stale:
            del self.tries[event.job]
        before = set(self.drivers)
        self.handle(event)
        if is_stale and event.job in set(self.drivers) - before:
            raise ViolationError(f"a stale try drives job {event.job}")

    def _drive(self, job: str, stops: tuple[on.Stop, ...]) -> None:
        self._home.auditor.driven(self, job)
        if self.world.happens(self._home.story.undriven):
            self.handle(on.DriveFailed(job, "it cannot be opened"))
            return
        driver = self.drivers[job] = Driver(self, self._home.outside[job])
        for stop in stops:
            driver.stop(stop.request)

    def driver_over(self, driver: Driver, event: on.DriverEnded | on.MachineFailed) -> None:
        """A driver of this process is over."""
        del self.drivers[driver.job]
        self._home.auditor.driver_over(event)
        self.handle(event)

    # ---- the job store -------------------------------------------------------------------------------------------

    def _keep(self, job: str, end: on.End) -> None:
        def kept(failure: Failure | None) -> None:
            if failure is None:
                self._home.auditor.end_kept(job)
                self.handle(on.EndKept(job))
            else:
                self.handle(on.EndNotKept(job, failure))

        self._home.store.end(self, job, end, kept)

    def _withdraw(self, job: str) -> None:
        def withdrawn(failure: Failure | None) -> None:
            self.handle(on.EndWithdrawn(job) if failure is None else on.EndNotWithdrawn(job, failure))

        self._home.store.withdraw(self, job, withdrawn)

    def _discard(self, job: str) -> None:
        def discarded(failure: Failure | None) -> None:
            self.handle(on.Discarded(job) if failure is None else on.NotDiscarded(job))

        self._home.store.discard(self, job, discarded)

    def phase(self, job: str) -> Phase | None:
        """How the job stands here; None: it is not known."""
        entry = self.registry.jobs.get(job) if self.started else None
        return None if entry is None else entry.phase
