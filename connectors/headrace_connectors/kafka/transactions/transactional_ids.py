"""The states of a writer's transactional ids: free, spare, open or prepared. Pure: knows no client and no thread.

    free ──begin_spare──> spare ──open──> open ──prepared(7)──> prepared ──committed(7)──> free, or a new name is

At most one name is spare: its producer is registered for the next transaction. At most one is open. A name becomes free
only when its transaction is committed and the journal records that: to register it earlier (InitProducerId) would abort
a decided transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from headrace.connect.sink import Committable


class TransactionLanes:
    """The names of one writer; each is in one state at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        assert len(names) == len(set(names)) > 0, "a writer's names differ"
        # first in, first out: the brokers have had most time to complete the last transaction of the first name
        self._free = deque(names)
        self._spare: str | None = None
        self._open: str | None = None
        self._prepared: list[Committable] = []

    @property
    def spare(self) -> str | None:
        """The name that the spare producer has, or will have."""
        return self._spare

    @property
    def opened(self) -> str | None:
        """The name of the open transaction."""
        return self._open

    @property
    def pending(self) -> tuple[Committable, ...]:
        """The committables that are prepared and not yet recorded as committed, oldest first."""
        return tuple(self._prepared)

    def begin_spare(self) -> str | None:
        """Makes a free name the spare one, and returns it. None: there is a spare name already, or no name is free."""
        if self._spare is not None or not self._free:
            return None
        self._spare = self._free.popleft()
        return self._spare

    def open(self) -> str:
        """Makes the spare name the open one, and returns it."""
        assert self._open is None, "one transaction is open at a time"
        assert self._spare is not None, "a transaction opens under the spare name"
        self._open, self._spare = self._spare, None
        return self._open

    def prepared(self, committable: Committable) -> None:
        """Records that the open transaction is complete and waits for its commit."""
        assert committable.name == self._open, "only the open transaction can be prepared"
        self._prepared.append(committable)
        self._open = None

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Frees the names that were prepared in epochs up to `epoch`. successors: name -> the name that replaces it."""
        # transactions of an aborted epoch stay prepared, and the commit of a later epoch includes them
        for item in self._prepared:
            if item.epoch <= epoch:
                self._free.append(successors.get(item.name, item.name))
        self._prepared = [item for item in self._prepared if item.epoch > epoch]
