"""An object store in memory that does what a test has scheduled: other things in between, refusals, lost answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from headrace.checkpoint.stores.store import Data, ObjectNotFoundError, StoredObject
from headrace.core.errors import ExternalError


class Fault(Enum):
    """What befalls one put."""

    NONE = "none"
    REFUSED = "nothing is written"
    LOST = "it is written, the answer is lost"


class MemoryStore:
    """Objects by path. `on_put` is told of everything that was written; `now_ms`: the clock."""

    def __init__(
        self, on_put: Callable[[str, bytes], None] | None = None, now_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self.held: dict[str, bytes] = {}
        self._modified_ms: dict[str, int] = {}
        self._on_put = on_put
        self._now_ms = now_ms

    @property
    def url(self) -> str:
        return "memory://test"

    def put_if_absent(self, path: str, data: Data) -> bool:
        if path in self.held:
            return False
        self.held[path], self._modified_ms[path] = bytes(data), self._now_ms()
        if self._on_put is not None:
            self._on_put(path, bytes(data))
        return True

    def write(self, path: str, data: Data) -> None:
        assert self.put_if_absent(path, data), f"{path} is written twice"

    def read(self, path: str) -> bytes:
        if path not in self.held:
            raise ObjectNotFoundError(path)
        return self.held[path]

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        return self.read(path)[offset : offset + length]

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self.held if path.startswith(prefix))

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        return [StoredObject(path, len(self.held[path]), self._modified_ms.get(path, 0)) for path in self.list(prefix)]

    def leftovers(self) -> Iterable[StoredObject]:
        return ()

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.held.pop(path, None)


class ScheduledStore(MemoryStore):
    """One writer's view of a store: before each call `between` runs (others may act); each put meets a fault."""

    def __init__(self, shared: MemoryStore, between: Callable[[], None], fault: Callable[[], Fault]) -> None:
        super().__init__()
        self._shared = shared
        self._between = between
        self._fault = fault

    def put_if_absent(self, path: str, data: Data) -> bool:
        self._between()
        fault = self._fault()
        if fault is Fault.REFUSED:
            raise ExternalError("refused", retry=True)
        written = self._shared.put_if_absent(path, data)
        if fault is Fault.LOST:
            raise ExternalError("no answer", retry=True)
        return written

    def read(self, path: str) -> bytes:
        self._between()
        return self._shared.read(path)

    def list(self, prefix: str) -> list[str]:
        self._between()
        return self._shared.list(prefix)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._between()
            self._shared.delete([path])
