"""A job's driver, as the registry sees one: it is asked, answers, and is over one day."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.coordinator.job_registry import events as on
from headrace.rpc.messages import Failure
from sim.world import ViolationError

if TYPE_CHECKING:
    from sim.registry.coordinator import Coordinator
    from sim.registry.outside import JobOutside

READ_AGAIN_MS = 1_000


class Driver:
    """Lives in a coordinator process, and dies with it."""

    def __init__(self, coordinator: Coordinator, outside: JobOutside) -> None:
        self._coordinator = coordinator
        self._world = coordinator.world
        self._outside = outside
        self.job = outside.job
        self.over = False
        self._running = False
        self._stops: list[str] = []
        self._cancels: list[str] = []
        self._soon(self._read)

    def _soon(self, work: Callable[[], None], delay_ms: int | None = None) -> None:
        self._coordinator.after(
            self._world.delay_ms() if delay_ms is None else delay_ms, lambda: None if self.over else work()
        )

    def _read(self) -> None:
        """Reads the journal: it may have ended there."""
        if not self._outside.is_reachable(self._world.now_ms):
            self._soon(self._read, READ_AGAIN_MS)
        elif self._outside.finished is not None:
            self._end(self._outside.finished)
        else:
            self._running = True

    # ---- what it is asked ----------------------------------------------------------------------------------------

    def stop(self, request: str) -> None:
        """As soon as it runs, and storage takes the savepoint."""
        self._require_alive()
        self._stops.append(request)
        self._soon(self._try_stop)

    def _try_stop(self) -> None:
        if self._running and self._outside.is_reachable(self._world.now_ms):
            self.finish(on.End("FINISHED", savepoint="/savepoint"))
        else:
            self._soon(self._try_stop, READ_AGAIN_MS)

    def cancel(self, request: str) -> None:
        """The end is wanted: storage that is away does not put it off."""
        self._require_alive()
        self._cancels.append(request)
        self._soon(lambda: self.finish(on.End("CANCELED")))

    def suspend(self) -> None:
        """The coordinator ends."""
        self._require_alive()
        self._soon(self.leave)

    def _require_alive(self) -> None:
        if self.over:
            raise ViolationError(f"a driver of job {self.job} is asked that is over")

    # ---- how it is over ------------------------------------------------------------------------------------------

    def finish(self, end: on.End) -> None:
        """Ends the job; the journal has it if that can be reached."""
        if self.over:
            return
        if self._outside.is_reachable(self._world.now_ms):
            end = self._outside.finished = self._outside.finished or end
        elif end.state == "FINISHED":
            return
        self._end(end)

    def _end(self, end: on.End) -> None:
        self.over = True
        stopped = end.state == "FINISHED"
        for request in self._stops:
            self._answer(request, "/savepoint" if stopped else None, None if stopped else self._refusal(end.state))
        for request in self._cancels:
            self._answer(request, None, self._refusal(end.state) if stopped else None)
        self._coordinator.driver_over(self, on.DriverEnded(self.job, end))

    def leave(self) -> None:
        """Leaves the job as its journal has it."""
        if not self.over:
            self._refuse_all("SUSPENDED")
            self._coordinator.driver_over(self, on.DriverEnded(self.job, None))

    def breaks(self) -> None:
        """Its master fails."""
        if not self.over:
            self._refuse_all("its master failed")
            failure = Failure("its master failed", "internal", retry=True)
            self._coordinator.driver_over(self, on.MachineFailed(self.job, failure, not self._outside.once))

    def _refuse_all(self, why: str) -> None:
        self.over = True
        for request in (*self._stops, *self._cancels):
            self._answer(request, None, self._refusal(why))

    def _refusal(self, why: str) -> Failure:
        return Failure(f"job {self.job}: {why}", "user", retry=False)

    def _answer(self, request: str, path: str | None, failure: Failure | None) -> None:
        self._coordinator.handle(on.Answered(self.job, request, path, failure))
