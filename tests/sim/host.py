"""The connector host of one coordinator's job: enumerators and committers in a child process that may die."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import CommittableDocument
from headrace.coordinator import events as on
from headrace.rpc.messages import Failure
from sim.outside import SOURCE

if TYPE_CHECKING:
    from sim.cluster import Cluster
    from sim.coordinator import Coordinator

RETRY_MS = 1_000


class Host:
    """Answers its coordinator with events. `life` counts its processes: what an older one was doing is lost."""

    def __init__(self, coordinator: Coordinator, cluster: Cluster) -> None:
        self._coordinator = coordinator
        self._cluster = cluster
        self._world = cluster.world
        self._life = 0
        self._opened: on.HostOpened | None = None
        self._opening = False

    def open(self, known: on.Splits) -> None:
        """Starts it if it is not there."""
        if self._opened is not None:
            self._coordinator.post(self._opened)
            return
        self._life += 1
        life, self._opening = self._life, True
        self._coordinator.after(self._world.between(100, 2_000), lambda: self._open(life, known))

    def _open(self, life: int, known: on.Splits) -> None:
        if life != self._life:
            return
        self._opening = False
        if self._world.happens(0.05):
            self._coordinator.post(on.HostFailed(_away("the source cannot be reached")))
            return
        source = self._cluster.source
        held = {(split.topic, split.partition): split for split in source.splits}
        held |= {(split.topic, split.partition): split for split in known.get(SOURCE, ())}
        self._opened = on.HostOpened(
            {SOURCE: tuple(held[key] for key in sorted(held))},
            {SOURCE: source.discovered_ms},
            frozenset({SOURCE} if source.discovered_ms is None else ()),
        )
        self._coordinator.post(self._opened)

    def discover(self) -> None:
        """Names splits that are new since it was asked the last time."""
        life = self._life
        self._coordinator.after(self._world.delay_ms() * 10, lambda: self._discover(life))

    def _discover(self, life: int) -> None:
        if life != self._life or self._opened is None:
            return
        known = {split.partition for split in self._opened.splits[SOURCE]}
        found = tuple(split for split in self._cluster.source.splits if split.partition not in known)
        if found:
            splits = {SOURCE: (*self._opened.splits[SOURCE], *found)}
            self._opened = on.HostOpened(splits, self._opened.intervals, self._opened.final)
            self._coordinator.post(on.SplitsFound(SOURCE, found))

    def commit(self, epoch: int, items: Sequence[CommittableDocument]) -> None:
        """Commits one after the other; what fails and may pass is tried again from the first."""
        life = self._life
        self._coordinator.after(self._world.delay_ms(), lambda: self._commit(life, epoch, items, 0))

    def _commit(self, life: int, epoch: int, items: Sequence[CommittableDocument], done: int) -> None:
        if life != self._life or self._opened is None:
            self._coordinator.post(on.CommitFailed(epoch, _away("the connector host died")))
            return
        if self._coordinator.over is not None:
            return
        if self._world.happens(self._cluster.story.commit_failures):
            if self._world.happens(0.1):
                self._coordinator.post(on.CommitFailed(epoch, _away("the ledger refuses")))
                return
            self._coordinator.after(RETRY_MS, lambda: self._commit(life, epoch, items, 0))
            return
        if done == len(items):
            self._coordinator.post(on.Committed(epoch))
            return
        self._cluster.ledger.commit(items[done])
        self._coordinator.after(self._world.delay_ms(), lambda: self._commit(life, epoch, items, done + 1))

    def kill(self) -> None:
        """The process dies; its coordinator sees that."""
        if self._opened is None and not self._opening:
            return
        self.close()
        self._coordinator.deliver(lambda: self._coordinator.post(on.HostFailed(_away("the connector host died"))))

    def close(self) -> None:
        """It is there no more."""
        self._life += 1
        self._opened, self._opening = None, False


def _away(text: str) -> Failure:
    return Failure(text, "external", retry=True)
