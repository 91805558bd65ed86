"""Checkpoint storage that is slow, away for a while, or loses its answers; and the queue of one coordinator to it.

The journal's real shell (`JournalStore`) runs against it, again from its beginning after each call (`sim.replayed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.checkpoint.stores.store import Data, StoredObject
from headrace.core.errors import ExternalError, HeadraceError
from sim.replayed import Call, Pending, Replayer, outcome
from sim.world import Process, World
from support.storage.memory_store import MemoryStore

RETRY_FIRST_MS, RETRY_MAX_MS = 200, 5_000
LEAVING_PATIENCE_MS = 10_000


@dataclass(frozen=True, slots=True)
class StorageFaults:
    """How likely a call is lost without effect, has its answer lost, or is refused for good."""

    refused: float
    unanswered: float
    refused_for_good: float


class Storage:
    """One object store. `away_until_ms`: it refuses everything until then."""

    def __init__(self, world: World, faults: StorageFaults, on_written: Callable[[str, bytes], None]) -> None:
        self.world = world
        self.objects = MemoryStore(on_written, lambda: world.now_ms)
        self.away_until_ms = 0
        self._faults = faults

    def call(self, caller: Process, call: Call, answer: Callable[[object], None]) -> None:
        """Does something in a while and answers later; the answer may be an exception. It is done even if the caller
        has died meanwhile."""
        self.world.after(self.world.delay_ms(), lambda: self._do(caller, call, answer))

    def _do(self, caller: Process, call: Call, answer: Callable[[object], None]) -> None:
        world = self.world
        if world.now_ms < self.away_until_ms or world.happens(self._faults.refused):
            result: object = ExternalError("storage is away", retry=True)
        elif world.happens(self._faults.refused_for_good):
            result = ExternalError("storage says that this is not allowed")
        else:
            result = outcome(call)
            if world.happens(self._faults.unanswered):
                result = ExternalError("no answer from storage", retry=True)
        world.after(world.delay_ms(), lambda: caller.deliver(lambda: answer(result)))


class ReplayedStore:
    """An object store whose calls are answered from what was answered before; the first new one stops the run."""

    def __init__(self, owner: Process, storage: Storage) -> None:
        self._owner = owner
        self._storage = storage
        self._objects = storage.objects
        self.replayer = Replayer()

    def _call(self, call: Call) -> object:
        return self.replayer.ask(lambda answer: self._storage.call(self._owner, call, answer))

    @property
    def url(self) -> str:
        return "memory://job"

    def put_if_absent(self, path: str, data: Data) -> bool:
        return bool(self._call(lambda: self._objects.put_if_absent(path, data)))

    def write(self, path: str, data: Data) -> None:
        self._call(lambda: self._objects.put_if_absent(path, data))

    def read(self, path: str) -> bytes:
        if self.replayer.is_ahead and self._storage.world.chance.random() < 0.9:
            # most reads of a listing follow each other closely
            self.replayer.answered(outcome(lambda: self._objects.read(path)))
        answer = self._call(lambda: self._objects.read(path))
        assert isinstance(answer, bytes)
        return answer

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        return self.read(path)[offset : offset + length]

    def list(self, prefix: str) -> list[str]:
        answer = self._call(lambda: self._objects.list(prefix))
        assert isinstance(answer, list)
        return answer

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        raise NotImplementedError

    def leftovers(self) -> Iterable[StoredObject]:
        raise NotImplementedError

    def delete(self, paths: Iterable[str]) -> None:
        listed = list(paths)
        self._call(lambda: self._objects.delete(listed))


@dataclass(frozen=True, slots=True)
class _Work:
    what: str
    run: Callable[[], object]
    done: Callable[[object], None]
    failed: Callable[[HeadraceError], None]


class Lane:
    """Runs work in the order given, tries again what may pass: as `coordinator.driver.storage_queue` does."""

    def __init__(self, owner: Process, storage: Storage) -> None:
        self._owner = owner
        self._storage = storage
        self.store = ReplayedStore(owner, storage)
        self._queue: deque[_Work] = deque()
        self._busy = False
        self._delay_ms = RETRY_FIRST_MS
        self._begun_ms = 0
        self._patience_ms: int | None = None

    def put(
        self,
        what: str,
        run: Callable[[], object],
        done: Callable[[object], None],
        failed: Callable[[HeadraceError], None],
    ) -> None:
        """Queues work."""
        self._queue.append(_Work(what, run, done, failed))
        if not self._busy:
            self._begin()

    def hurry(self, patience_ms: int = LEAVING_PATIENCE_MS) -> None:
        """The job is to end."""
        self._patience_ms = patience_ms

    def _begin(self) -> None:
        if not self._queue:
            self._busy = False
            return
        self._busy = True
        self._delay_ms, self._begun_ms = RETRY_FIRST_MS, self._storage.world.now_ms
        self.store.replayer.forget()
        self._run()

    def _again(self) -> None:
        self.store.replayer.forget()
        self._run()

    def _run(self) -> None:
        work = self._queue[0]
        self.store.replayer.rewind()
        try:
            result = work.run()
        except Pending as call:
            call.start(self._on_answer)
        except HeadraceError as error:
            self._on_error(work, error)
        else:
            self._queue.popleft()
            work.done(result)
            self._begin()

    def _on_answer(self, answer: object) -> None:
        self.store.replayer.answered(answer)
        self._run()

    def _on_error(self, work: _Work, error: HeadraceError) -> None:
        tried_ms = self._storage.world.now_ms - self._begun_ms
        if error.retry and (self._patience_ms is None or tried_ms < self._patience_ms):
            self._owner.after(self._delay_ms, self._again)
            self._delay_ms = min(self._delay_ms * 2, RETRY_MAX_MS)
            return
        self._queue.popleft()
        work.failed(error)
        self._begin()
