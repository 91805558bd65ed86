"""Checkpoint storage of one job, as its auditor and one of its drivers see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from headrace.checkpoint.stores.store import Data, StoredObject
from sim.replayed import Call, Replayer, outcome
from support.storage.memory_store import MemoryStore

DELETED_AT_ONCE = 2


class WatchedStore(MemoryStore):
    """Objects in memory. `on_delete` is told of each that is there, before it is deleted."""

    def __init__(self, on_put: Callable[[str, bytes], None], on_delete: Callable[[str], None]) -> None:
        super().__init__(on_put)
        self._on_delete = on_delete

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes objects; missing ones are fine."""
        for path in paths:
            if path in self.held:
                self._on_delete(path)
                del self.held[path]


class DriversStore:
    """An `ObjectStore`: the folder `url` of the store, for the blocking code of one process."""

    def __init__(self, url: str, objects: WatchedStore, ask: Callable[[Call], object], replayer: Replayer) -> None:
        self._url = url
        self._prefix = f"{url}/"
        self._objects = objects
        self._ask = ask
        self._replayer = replayer

    @property
    def url(self) -> str:
        """The folder."""
        return self._url

    def put_if_absent(self, path: str, data: Data) -> bool:
        """Writes it, unless it is there."""
        return bool(self._ask(lambda: self._objects.put_if_absent(self._prefix + path, data)))

    def write(self, path: str, data: Data) -> None:
        """Writes it."""
        self._ask(lambda: self._objects.put_if_absent(self._prefix + path, data))

    def read(self, path: str) -> bytes:
        """The object. Reads follow each other closely, and storage that has just listed them is there."""
        data = self._replayer.note(lambda: outcome(lambda: self._objects.read(self._prefix + path)))
        assert isinstance(data, bytes)
        return data

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        """A part of the object."""
        return self.read(path)[offset : offset + length]

    def list(self, prefix: str) -> list[str]:
        """Paths below the folder."""
        return [path.removeprefix(self._prefix) for path in self._listed(prefix)]

    def _listed(self, prefix: str) -> Sequence[str]:
        answer = self._ask(lambda: self._objects.list(self._prefix + prefix))
        assert isinstance(answer, list)
        return answer

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        """The same with sizes."""
        answer = self._ask(lambda: self._objects.objects(self._prefix + prefix))
        assert isinstance(answer, list)
        return [StoredObject(each.path.removeprefix(self._prefix), each.bytes, 0) for each in answer]

    def leftovers(self) -> Iterable[StoredObject]:
        """Interrupted writes leave nothing here."""
        return ()

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes some at a time: a driver may be stopped in between."""
        listed = [self._prefix + path for path in paths]
        for first in range(0, len(listed), DELETED_AT_ONCE):
            some = listed[first : first + DELETED_AT_ONCE]
            self._ask(partial(self._objects.delete, some))
