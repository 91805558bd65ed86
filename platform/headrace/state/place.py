"""Where the rows of a slot's states lie: in memory up to a budget, beyond it in local files.

Each step runs in one thread, and moves rows of its own only, when it has made new ones. An account is written by one
thread and read by all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar
from weakref import ref

from headrace.core.errors import UserError

if TYPE_CHECKING:
    import polars as pl

Item = TypeVar("Item")
Made = TypeVar("Made")
Made_co = TypeVar("Made_co", covariant=True)

MAX_PARALLELISM = 128
"""The number of key groups, unless the pipeline says another one."""
MOVED_BYTES_MIN = 65_536
"""Fewer rows stay in memory: a file takes whole pages."""
CACHE_SHARE = 4
"""What steps keep beside their rows, to find or add them faster, is together at most this part of the budget."""
PIECE_BYTES_MIN, PIECE_BYTES_MAX = 4 << 20, 64 << 20
_PIECE_SHARE = 8
"""Rows that a merge, an upload or a restore works on at once are this part of the budget, within these bounds."""


class Living(Generic[Item]):
    """The objects that were added and that somebody still has. Any thread adds and asks."""

    def __init__(self) -> None:
        # A dictionary is changed by one call, and copied by one. A WeakSet is neither: it fails a thread that asks
        # while another one adds.
        self._refs: dict[int, ref[Item]] = {}

    def add(self, item: Item) -> None:
        """Adds an object."""
        number = id(item)
        self._refs[number] = ref(item, lambda _: self._refs.pop(number, None))

    def __bool__(self) -> bool:
        return bool(self._refs)

    def all(self) -> list[Item]:
        """The objects, in no order."""
        return [item for each in list(self._refs.values()) if (item := each()) is not None]


class Account:
    """Bytes that a step holds: in memory and in local files. state: the state that they are of; empty: what the step
    keeps beside its rows."""

    def __init__(self, budget: Budget, state: str = "") -> None:
        self._budget = budget
        self.state = state
        self.memory_bytes = 0
        self.file_bytes = 0

    @property
    def excess_bytes(self) -> int:
        """The bytes that its owner should move to local files: the slot's excess, but no more than it holds."""
        return min(self._budget.excess_bytes, self.memory_bytes)


class Budget:
    """The bytes that all steps of a slot may hold in memory together. limit_bytes: None if there is no bound."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self._accounts: Living[Account] = Living()
        self._caches: Living[CacheBound] = Living()
        self._is_pressed = False

    def account(self, state: str = "") -> Account:
        """One more account. It counts as long as somebody has it."""
        made = Account(self, state)
        self._accounts.add(made)
        return made

    @property
    def memory_bytes(self) -> int:
        """Bytes that the slot's steps hold in memory."""
        return sum(account.memory_bytes for account in self._accounts.all())

    @property
    def file_bytes(self) -> int:
        """Bytes that the slot's steps hold in local files."""
        return sum(account.file_bytes for account in self._accounts.all())

    @property
    def excess_bytes(self) -> int:
        """Bytes in memory above the limit; 0 without a limit."""
        return 0 if self.limit_bytes is None else max(0, self.memory_bytes - self.limit_bytes)

    def is_pressed(self) -> bool:
        """Whether the slot holds so much more than its budget that sources should pause: half of it more, although what
        can has moved to local files, and until it is within the budget again. To be called by one thread."""
        held, limit = self.memory_bytes, self.limit_bytes
        self._is_pressed = limit is not None and held > (limit if self._is_pressed else limit + limit // 2)
        return self._is_pressed

    @property
    def piece_bytes(self) -> int:
        """The bytes of rows that a merge, an upload or a restore works on at once, about. They come on top, several
        times: as read, as computed, as written."""
        if self.limit_bytes is None:
            return PIECE_BYTES_MAX
        return min(PIECE_BYTES_MAX, max(PIECE_BYTES_MIN, self.limit_bytes // _PIECE_SHARE))

    def cache(self, most: int) -> CacheBound:
        """The bound of one more cache, which has at most `most` bytes. It counts as long as somebody has it."""
        made = CacheBound(self, most)
        self._caches.add(made)
        return made

    @property
    def caches(self) -> int:
        """The number of caches."""
        return len(self._caches.all())


class CacheBound:
    """The bound of a cache: all caches of a slot share a part of its budget, so that they alone never press it."""

    def __init__(self, budget: Budget, most: int) -> None:
        self._budget = budget
        self._most = most

    @property
    def bytes_max(self) -> int:
        """The bytes that it may have now."""
        limit = self._budget.limit_bytes
        return self._most if limit is None else min(self._most, limit // CACHE_SHARE // max(1, self._budget.caches))


class Merging(Protocol[Made_co]):
    """A merge that was started."""

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    def result(self) -> Made_co:
        """Waits for its end. Raises what it raised."""
        ...


class Merges(Protocol):
    """Runs the merges of a slot, and what else its steps must not wait for."""

    def start(self, merge: Callable[[], Made]) -> Merging[Made]:
        """Starts a merge, which must only read what it shares with its caller."""
        ...

    def start_short(self, work: Callable[[], Made]) -> Merging[Made]:
        """Starts work that waits for no merge: rows are moved, or freed."""
        ...


class ImmediateMerges:
    """Merges where they are started."""

    def start(self, merge: Callable[[], Made]) -> Merging[Made]:
        """Merges. Raises what the merge raises."""
        return _Merged(merge())

    def start_short(self, work: Callable[[], Made]) -> Merging[Made]:
        """Works. Raises what the work raises."""
        return _Merged(work())


@dataclass(frozen=True, slots=True)
class _Merged(Generic[Made]):
    value: Made

    def done(self) -> bool:
        return True

    def result(self) -> Made:
        return self.value


class RowFile(Protocol):
    """Rows in a local file, which is freed with the last reference to them."""

    @property
    def frame(self) -> pl.DataFrame:
        """The rows, mapped."""
        ...

    @property
    def file_bytes(self) -> int:
        """The size of their columns."""
        ...


class RowFiles(Protocol):
    """The local files of a slot. Used by any thread."""

    def kept(self, frame: pl.DataFrame) -> RowFile:
        """The same rows, in a file. Raises UserError if there is no space."""
        ...

    def release_pages(self) -> None:
        """Takes the pages of all files out of this process: they are read again where rows are touched."""
        ...

    def limit_pages(self) -> None:
        """Does so if more of them count for this process than their bound."""
        ...


@dataclass(frozen=True, slots=True)
class StateTerms:
    """What a pipeline says about the place of its state.

    backend       `disk`: rows beyond the budget go to local files
    memory_bytes  bytes of a slot's state in memory; None: what is usual
    folder        of local files; None: what is usual
    """

    backend: Literal["memory", "disk"] = "disk"
    memory_bytes: int | None = None
    folder: str | None = None


UNSAID = StateTerms()
"""A pipeline that says nothing."""


@dataclass(frozen=True, slots=True)
class StatePlace:
    """What the states of a slot share.

    max_parallelism   the number of key groups: rows are kept in their order
    files             where rows go beyond the budget; None: nowhere, and more than the budget fails the job
    state             the state whose rows come to it
    accounts          those of the step that it is given to
    """

    max_parallelism: int = MAX_PARALLELISM
    budget: Budget = field(default_factory=Budget)
    merges: Merges = field(default_factory=ImmediateMerges)
    files: RowFiles | None = None
    state: str = ""
    accounts: Living[Account] = field(default_factory=Living)

    def of_step(self) -> StatePlace:
        """The same place, with the accounts of one step of one subtask."""
        return replace(self, accounts=Living())

    def of_state(self, state: str) -> StatePlace:
        """The same place, for one state of its step."""
        return replace(self, state=state)

    def account(self) -> Account:
        """One more account, of the place's state."""
        made = self.budget.account(self.state)
        self.accounts.add(made)
        return made

    def by_state(self) -> dict[str, tuple[int, int]]:
        """State -> its bytes in memory, and in local files. Any thread asks."""
        found: dict[str, tuple[int, int]] = {}
        for each in self.accounts.all():
            memory, files = found.get(each.state, (0, 0))
            found[each.state] = (memory + each.memory_bytes, files + each.file_bytes)
        return found

    def release_pages(self) -> None:
        """Keeps the pages of local files that count for this process to those touched since the last call."""
        if self.files is not None:
            self.files.release_pages()

    def limit_pages(self) -> None:
        """Keeps the pages of local files within their bound; to be called where rows have been read."""
        if self.files is not None:
            self.files.limit_pages()

    def require_room(self) -> None:
        """Raises UserError if the slot holds more than its budget and has no local files."""
        excess = self.budget.excess_bytes
        if excess and self.files is None:
            raise UserError(
                f"the state of a slot has {self.budget.memory_bytes:,} bytes,"
                f" and state.memory allows {self.budget.limit_bytes:,}",
                remedy="raise state.memory, set state.backend: disk, or use a higher parallelism",
            )
