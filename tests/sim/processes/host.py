"""The connector host of one coordinator's job: enumerators and committers in a child process that may die."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import CommittableDocument
from headrace.connect.sink import CheckpointTerms, Committable
from headrace.coordinator.job import events as on
from headrace.core.errors import HeadraceError
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import Failure
from sim.external.outside import SINK, SOURCE
from sim.external.transactions import Taker
from sim.names import JOB
from sim.processes.committer import SimulatedCommitter, Work

if TYPE_CHECKING:
    from sim.cluster import Cluster
    from sim.processes.coordinator import Coordinator

RETRY_MS = 1_000
Items = Sequence[CommittableDocument]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Something that the committer is to do.

    insists   whether what may pass is tried again
    done      what to say of its answer; failed: of its failure
    """

    what: Callable[[], object]
    by: Taker
    insists: bool
    done: Callable[[object], on.Event | None]
    failed: Callable[[Failure], on.Event | None]


class Host:
    """Answers its coordinator with events. `life` counts its processes: what an older one was doing is lost."""

    def __init__(self, coordinator: Coordinator, cluster: Cluster) -> None:
        self._coordinator = coordinator
        self._cluster = cluster
        self._world = cluster.world
        self._life = 0
        self._opened: on.ConnectorHostOpened | None = None
        self._opening = False
        self._begins = 0
        self._asked: deque[_Asked] = deque()
        self._committer = _committer(coordinator, cluster)

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
            self._coordinator.post(on.ConnectorHostFailed(_away("the source cannot be reached"), refused=True))
            return
        source = self._cluster.source
        held = {(split.topic, split.partition): split for split in source.splits}
        held |= {(split.topic, split.partition): split for split in known.get(SOURCE, ())}
        self._opened = on.ConnectorHostOpened(
            {SOURCE: tuple(held[key] for key in sorted(held))},
            {SOURCE: source.discovered_ms},
            frozenset({SOURCE} if source.discovered_ms is None else ()),
            {SINK: {"end": self._cluster.rows_outside}} if self._committer is not None else {},
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
            self._opened = on.ConnectorHostOpened(
                splits, self._opened.intervals, self._opened.final, self._opened.begins
            )
            self._coordinator.post(on.SplitsFound(SOURCE, found))

    # ---- committers ----------------------------------------------------------------------------------------------

    def describe(self, epoch: int, items: Items) -> None:
        """Tried once."""
        real = self._committer
        if real is None:
            self._coordinator.after(
                self._world.delay_ms(), lambda: self._coordinator.post(on.Described(epoch, tuple(items)))
            )
            return
        self._ask(
            _Asked(
                lambda: real.real.describe(_plain(items)),
                Taker("describe", 0),
                insists=False,
                done=lambda found: on.Described(epoch, _documents(found)),
                failed=lambda failure: on.DescribeFailed(epoch, failure),
            )
        )

    def commit(self, epoch: int, items: Items) -> None:
        """What may pass is tried again."""
        real = self._committer
        if real is None:
            life = self._life
            self._coordinator.after(self._world.delay_ms(), lambda: self._commit_parts(life, epoch, items, 0))
            return
        self._ask(
            _Asked(
                lambda: real.real.commit(_plain(items)),
                Taker("commit", 0),
                insists=True,
                done=lambda lost: on.Committed(epoch, _documents(lost)),
                failed=lambda failure: on.CommitFailed(epoch, failure),
            )
        )

    def fence(self, attempt: int, names: Mapping[str, Sequence[str]]) -> None:
        """What may pass is tried again."""
        real = self._committer
        assert real is not None, "only transactions have names"
        own = tuple(names.get(SINK, ()))
        begun_ms = self._world.now_ms

        def fenced(_: object) -> on.Event:
            self._cluster.auditor.fenced(attempt, begun_ms)
            return on.Fenced(attempt)

        self._ask(
            _Asked(
                lambda: real.real.fence(own),
                Taker("fence", attempt),
                insists=True,
                done=fenced,
                failed=lambda failure: on.FenceFailed(attempt, failure),
            )
        )

    def sweep(self, attempt: int) -> None:
        """Says nothing."""
        real = self._committer
        assert real is not None, "only transactions are swept"
        self._ask(
            _Asked(
                lambda: real.real.sweep(attempt),
                Taker("sweep", attempt),
                insists=False,
                done=lambda _: None,
                failed=lambda _: None,
            )
        )

    def _ask(self, asked: _Asked) -> None:
        if self._opened is None:
            self._post(asked.failed(_away("the connector host died")))
            return
        self._asked.append(asked)
        if len(self._asked) == 1:
            self._begin()

    def _begin(self) -> None:
        """The oldest request, as in the one thread that the host has for them."""
        assert self._committer is not None, "it is asked something"
        if not self._asked:
            return
        asked, life = self._asked[0], self._life
        alive = lambda: life == self._life and self._coordinator.over is None  # noqa: E731 - one word
        self._committer.run(Work(asked.what, asked.by, alive, lambda result: self._on_done(life, asked, result)))

    def _on_done(self, life: int, asked: _Asked, result: object) -> None:
        self._asked.popleft()
        if not isinstance(result, HeadraceError):
            self._post(asked.done(result))
        elif asked.insists and result.retry:
            self._coordinator.after(RETRY_MS, lambda: self._again(life, asked))
        else:
            self._post(asked.failed(failure_of(result)))
        self._begin()

    def _again(self, life: int, asked: _Asked) -> None:
        if life != self._life:
            self._post(asked.failed(_away("the connector host died")))
        elif self._coordinator.over is None:
            self._ask(asked)

    def _post(self, event: on.Event | None) -> None:
        if event is not None and self._coordinator.over is None:
            self._coordinator.post(event)

    def _commit_parts(self, life: int, epoch: int, items: Items, done: int) -> None:
        """Commits one after the other; what fails and may pass is tried again from the first."""
        if life != self._life or self._opened is None:
            self._coordinator.post(on.CommitFailed(epoch, _away("the connector host died")))
            return
        if self._coordinator.over is not None:
            return
        if self._world.happens(self._cluster.story.commit_failures):
            if self._world.happens(0.1):
                self._coordinator.post(on.CommitFailed(epoch, _away("the ledger refuses")))
                return
            self._coordinator.after(RETRY_MS, lambda: self._commit_parts(life, epoch, items, 0))
            return
        if done == len(items):
            self._coordinator.post(on.Committed(epoch))
            return
        self._cluster.ledger.commit(items[done])
        self._coordinator.after(self._world.delay_ms(), lambda: self._commit_parts(life, epoch, items, done + 1))

    # ---- its end -------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """The process dies; its coordinator sees that."""
        if self._opened is None and not self._opening:
            return
        asked = list(self._asked)
        self.close()

        def died() -> None:
            for each in asked:
                self._post(each.failed(_away("the connector host died")))
            self._coordinator.post(on.ConnectorHostFailed(_away("the connector host died")))

        self._coordinator.deliver(died)

    def close(self) -> None:
        """It is there no more."""
        self._life += 1
        self._opened, self._opening = None, False
        self._asked.clear()


def _committer(coordinator: Coordinator, cluster: Cluster) -> SimulatedCommitter | None:
    if cluster.brokers is None:
        return None
    checkpoint = cluster.story.checkpoint
    terms = CheckpointTerms(
        checkpoint.interval_ms, checkpoint.timeout_ms, True, checkpoint.tolerable_failures, restart_delay_ms=60_000
    )
    return SimulatedCommitter(coordinator, cluster.brokers, JOB, cluster.story.retire_epoch, terms)


def _plain(items: Items) -> list[Committable]:
    return [item.committable() for item in items]


def _documents(found: object) -> tuple[CommittableDocument, ...]:
    assert isinstance(found, list)
    return tuple(CommittableDocument.of(item) for item in found)


def _away(text: str) -> Failure:
    return Failure(text, "external", retry=True)
