"""One task for each object: rounds, one after the other, when the object changes and after pauses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.core.errors import HeadraceError
from headrace.kubernetes.connection import ConflictError, Connection
from headrace.kubernetes_operator.decisions.job_view import Moment
from headrace.kubernetes_operator.decisions.steps import Result
from headrace.kubernetes_operator.resources.conditions import time_text
from headrace.kubernetes_operator.resources.kinds import CLUSTER, JOB, SNAPSHOT
from headrace.kubernetes_operator.rounds import Round, World, one_round
from headrace.kubernetes_operator.shell.health import Figures, Outcome
from headrace.kubernetes_operator.shell.job_world import JobWorld
from headrace.kubernetes_operator.shell.resource_store import Key
from headrace.kubernetes_operator.shell.worlds import ClusterWorld, SnapshotWorld

LOG = logging.getLogger("headrace.operator")
ROUNDS_MAX = 16
"""Rounds at the same time; others wait for a thread."""
CONFLICT_SECONDS = 0.1
FAILED_SECONDS, FAILED_SECONDS_MAX = 1.0, 30.0
"""The pause after a round that failed: it doubles with each one."""
RECORDS_FREE, RECORDS_SECONDS_MAX = 3, 5.0
"""Records without a step between them: after so many the pause grows, up to so long."""
END_SECONDS = 10.0
"""How long `close` waits for rounds that are under way."""

_WORLDS: dict[str, Callable[[Key, Connection, Callable[[], Moment]], World[Any, Any]]] = {
    CLUSTER.name: ClusterWorld,
    JOB.name: JobWorld,
    SNAPSHOT.name: SnapshotWorld,
}


class Reconcilers:
    """The objects of one operator that leads. Used in one event loop; rounds run in threads."""

    def __init__(self, connection: Connection, figures: Figures) -> None:
        self._connection = connection
        self._figures = figures
        self._threads = ThreadPoolExecutor(ROUNDS_MAX, thread_name_prefix="headrace-round")
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._changed: dict[Key, asyncio.Event] = {}
        self._under_way = 0
        self._may_act = asyncio.Event()
        self._may_act.set()

    @property
    def is_busy(self) -> bool:
        """Whether a round is under way."""
        return self._under_way > 0

    def wake(self, key: Key) -> None:
        """An object has appeared or changed: its next round begins at once."""
        if key not in self._tasks:
            self._changed[key] = asyncio.Event()
            self._tasks[key] = asyncio.create_task(self._keep(key), name=str(key))
            self._figures.handles(key.kind, 1)
        self._changed[key].set()

    def hold(self, *, is_held: bool) -> None:
        """Held: no further round begins."""
        if is_held:
            self._may_act.clear()
        else:
            self._may_act.set()

    async def close(self) -> None:
        """Ends all tasks; waits for rounds that are under way, for `END_SECONDS` at most."""
        self.hold(is_held=True)
        for _ in range(int(END_SECONDS / CONFLICT_SECONDS)):
            if not self.is_busy:
                break
            await asyncio.sleep(CONFLICT_SECONDS)
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _keep(self, key: Key) -> None:
        world, changed = _WORLDS[key.kind.name](key, self._connection, now), self._changed[key]
        result: Result | None = None
        failed_s, records = FAILED_SECONDS, 0
        while True:
            await self._may_act.wait()
            changed.clear()
            begun_s = time.monotonic()
            outcome: Outcome = "done"
            try:
                done = await self._round(world, result)
                result, pause_s, failed_s = done.result, done.pause_s, FAILED_SECONDS
                records = records + 1 if done.has_recorded else 0
            except ConflictError:
                # another client has changed the object since it was read
                outcome = "conflict"
                pause_s = CONFLICT_SECONDS
            except Exception as error:
                outcome = "failed"
                LOG.warning("%s: %s", key, error, exc_info=not isinstance(error, HeadraceError))
                pause_s, failed_s = failed_s, min(2 * failed_s, FAILED_SECONDS_MAX)
            self._figures.round(key.kind, outcome, time.monotonic() - begun_s)
            if pause_s is None and not changed.is_set():
                # nothing awaits between this and the next `wake`, which makes another task
                del self._tasks[key], self._changed[key]
                self._figures.handles(key.kind, -1)
                return
            # a message that is another one at each look would be written without end: each write wakes the next round
            await asyncio.sleep(min(records * CONFLICT_SECONDS, RECORDS_SECONDS_MAX) if records > RECORDS_FREE else 0)
            await _pause(changed, pause_s or 0.0)

    async def _round(self, world: World[Any, Any], result: Result | None) -> Round:
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, one_round, world, result)
        finally:
            self._under_way -= 1


def now() -> Moment:
    """The time of this process."""
    seconds = time.time()
    return Moment(seconds, time_text(seconds))


async def _pause(changed: asyncio.Event, seconds: float) -> None:
    if seconds <= 0:
        return
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass
