"""Assigns the splits of a local job to its slices: those found at the start, and those that later discoveries add."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from headrace.checkpoint.manifest import SplitDocument
from headrace.core.errors import ExternalError
from headrace.core.signals import TIME_MAX
from headrace.execution.connectors import JobConnectors
from headrace.execution.discovered import DiscoveredSource
from headrace.execution.split_assignment import assign_splits
from headrace.worker.control import Assign, AssignedSplit
from headrace.worker.slot.slice import Slice

RETRY_MS = 5_000
"""Pause after a discovery that failed because the external system did not answer."""

Splits = tuple[SplitDocument, ...]


@dataclass(slots=True)
class _Source:
    opened: DiscoveredSource
    known: frozenset[tuple[str, int]] = frozenset()
    due_ms: int = TIME_MAX
    look: Future[Splits] | None = None


class Discovery:
    """Assigns the splits of all sources. Used by the thread that supervises the job."""

    def __init__(self, connectors: JobConnectors, slices: Sequence[Slice], wake: Callable[[], None]) -> None:
        """`wake` is called, in another thread, when a discovery has ended."""
        self._connectors = connectors
        self._slices = slices
        self._wake = wake
        self._sources: dict[str, _Source] = {}

    def begin(self, opened: Mapping[str, DiscoveredSource], now_ms: int) -> None:
        """Assigns the splits that the enumerators found when they were opened."""
        for name, found in opened.items():
            self._sources[name] = _Source(found)
            self._assign(name, found.splits, now_ms)

    def step(self, now_ms: int) -> None:
        """Starts the discoveries that are due, and assigns the new splits of those that have ended."""
        for name, source in self._sources.items():
            if source.look is None and now_ms >= source.due_ms:
                source.look = self._look(name)
            elif source.look is not None and source.look.done():
                look, source.look = source.look, None
                try:
                    self._assign(name, look.result(), now_ms)
                except ExternalError:
                    # assigned splits do not depend on the answer, so the job goes on and the discovery is retried
                    source.due_ms = now_ms + RETRY_MS

    def _look(self, source: str) -> Future[Splits]:
        """Starts a discovery in its own daemon thread, so that an unreachable broker delays neither the job nor its
        end."""
        look: Future[Splits] = Future()
        look.add_done_callback(lambda _: self._wake())

        def run() -> None:
            try:
                look.set_result(self._connectors.discover(source))
            except BaseException as error:  # the shell of a thread: `result` raises it
                look.set_exception(error)

        threading.Thread(target=run, name=f"discover-{source}", daemon=True).start()
        return look

    def _assign(self, name: str, splits: Splits, now_ms: int) -> None:
        """Assigns new splits to their subtasks. The first Assign goes to every subtask, also to one without a split,
        because `final` must reach all of them."""
        source = self._sources[name]
        readers = [part for part in self._slices if name in part.sources]
        fresh = [split for split in splits if (split.topic, split.partition) not in source.known]
        first = not source.known
        source.known |= {(split.topic, split.partition) for split in fresh}
        final, interval_ms = source.opened.final, source.opened.interval_ms
        source.due_ms = TIME_MAX if final or interval_ms is None else now_ms + interval_ms
        for reader, own in zip(readers, assign_splits(fresh, None, len(readers)), strict=True):
            if own or first:
                reader.tell({name: Assign(tuple(AssignedSplit(each.split.split()) for each in own), final)})
