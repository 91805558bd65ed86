"""Which of a writer's names is free, spare, open or prepared. Pure: knows no client and no thread.

    free ──begin_spare──> spare ──open──> open ──prepared(7)──> prepared ──committed(7)──> free, maybe under a new name

One name is spare at most, one open at most. A name comes back only when its transaction is committed and that stands in
the journal: whoever initialises it earlier aborts what is decided.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from headrace.connect.sink import Committable


class TransactionLanes:
    """The names of one writer, in few hands: each is in one state at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        assert len(names) == len(set(names)) > 0, "a writer's names differ"
        # the one that was given back first is taken first: the brokers are surely done with its last transaction
        self._free = deque(names)
        self._spare: str | None = None
        self._open: str | None = None
        self._prepared: list[Committable] = []

    @property
    def spare(self) -> str | None:
        """The name that the spare producer has, or gets."""
        return self._spare

    @property
    def pending(self) -> tuple[Committable, ...]:
        """What is prepared and not known to be committed, oldest first."""
        return tuple(self._prepared)

    def begin_spare(self) -> str | None:
        """The name for a new spare producer; None: there is one already, or no name is free."""
        if self._spare is not None or not self._free:
            return None
        self._spare = self._free.popleft()
        return self._spare

    def open(self) -> str:
        """The spare one's transaction begins."""
        assert self._open is None, "one transaction is open at a time"
        assert self._spare is not None, "a transaction opens under the spare name"
        self._open, self._spare = self._spare, None
        return self._open

    def prepared(self, committable: Committable) -> None:
        """The open transaction is complete and waits to be committed."""
        assert committable.name == self._open, "what is prepared was open"
        self._prepared.append(committable)
        self._open = None

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Frees the names of everything prepared up to `epoch`; those in `successors` are replaced from now on."""
        for item in self._prepared:
            if item.epoch <= epoch:
                self._free.append(successors.get(item.name, item.name))
        self._prepared = [item for item in self._prepared if item.epoch > epoch]
