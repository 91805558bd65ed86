"""The states of a writer's transactional ids: free, spare, open or prepared. Pure: knows no client and no thread.

    free ──begin_spare──> spare ──open──> open ──prepared(7)──> prepared ──committed(7)──> free, maybe under a new name

At most one name is spare, at most one open. A name becomes free only when its transaction is committed and the journal
records that: registering it earlier (InitProducerId) would abort a decided transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from headrace.connect.sink import Committable


class TransactionLanes:
    """The names of one writer; each is in one state at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        assert len(names) == len(set(names)) > 0, "a writer's names differ"
        # FIFO: the brokers have certainly completed the last transaction of the name that was freed first
        self._free = deque(names)
        self._spare: str | None = None
        self._open: str | None = None
        self._prepared: list[Committable] = []

    @property
    def spare(self) -> str | None:
        """The name that the spare producer has, or will have."""
        return self._spare

    @property
    def pending(self) -> tuple[Committable, ...]:
        """Prepared committables that are not known to be committed, oldest first."""
        return tuple(self._prepared)

    def begin_spare(self) -> str | None:
        """The name for a new spare producer; None: there is one already, or no name is free."""
        if self._spare is not None or not self._free:
            return None
        self._spare = self._free.popleft()
        return self._spare

    def open(self) -> str:
        """Opens a transaction under the spare name."""
        assert self._open is None, "one transaction is open at a time"
        assert self._spare is not None, "a transaction opens under the spare name"
        self._open, self._spare = self._spare, None
        return self._open

    def prepared(self, committable: Committable) -> None:
        """Records that the open transaction is complete and waits for its commit."""
        assert committable.name == self._open, "what is prepared was open"
        self._prepared.append(committable)
        self._open = None

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Frees the names of everything prepared up to `epoch`; those in `successors` are replaced from now on."""
        # an aborted epoch's transactions stay prepared, and a later epoch's commit covers them
        for item in self._prepared:
            if item.epoch <= epoch:
                self._free.append(successors.get(item.name, item.name))
        self._prepared = [item for item in self._prepared if item.epoch > epoch]
