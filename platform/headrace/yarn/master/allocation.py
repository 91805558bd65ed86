"""The containers of one application, and the ApplicationMasterProtocol as a machine: which call comes next. Pure.

Rules of the ResourceManager (`ApplicationMasterService.allocate`):

* A request names a *count* that is outstanding, not an increment. A number (allocation request id) belongs to one
  worker here, so its count is 1, or 0 once it is withdrawn. The ResourceManager lowers the count when it grants.
* A call has the response id of the last answer. If an answer is lost, the same call gets that answer again. So a call
  is repeated *unchanged*, and the next call has the requests that were made meanwhile.
* A ResourceManager that was restarted knows no request: after the registration the ids begin at 0, and everything that
  is outstanding is sent again.

A roster holds the containers by the number of the request that each was granted for:

    requested ──> granted ──> running ──> ended ──> forgotten
        └────────────┴───────────┴── released: forgotten once YARN reports the end

A number survives the ApplicationMaster: YARN returns it with the containers that the next attempt keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from headrace.yarn.records import Allocation, ContainerEnd, Headroom


@dataclass(frozen=True, slots=True)
class AllocateCall:
    """counts: number -> 1 or 0; releases: containers."""

    response_id: int
    counts: tuple[tuple[int, int], ...] = ()
    releases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocateAnswer:
    """headroom: None: the answer has none; nodes: those whose state has changed -> whether YARN decommissions them, and
    lets what runs there end before."""

    response_id: int
    allocated: tuple[Allocation, ...] = ()
    ended: tuple[ContainerEnd, ...] = ()
    headroom: Headroom | None = None
    nodes: Mapping[str, bool] = field(default_factory=dict)


class AllocationMachine:
    """The calls of one attempt. Belongs to one lock."""

    def __init__(self) -> None:
        self._response_id = 0
        self._outstanding: set[int] = set()
        self._changed: dict[int, int] = {}
        self._releases: list[str] = []
        self._sent: AllocateCall | None = None

    @property
    def outstanding(self) -> frozenset[int]:
        """Numbers that were requested and not granted."""
        return frozenset(self._outstanding)

    @property
    def is_eager(self) -> bool:
        """Whether the next call has a request, or waits for a container."""
        return bool(self._outstanding or self._changed or self._releases)

    def request(self, number: int) -> None:
        """Requests a container."""
        self._outstanding.add(number)
        self._changed[number] = 1

    def withdraw(self, number: int) -> None:
        """Withdraws a request. It may have been granted meanwhile: `answered` releases it then."""
        if number in self._outstanding:
            self._outstanding.discard(number)
            self._changed[number] = 0

    def release(self, container: str) -> None:
        """Releases a container, which ends its processes."""
        self._releases.append(container)

    def next_call(self) -> AllocateCall:
        """The call to send now: the last one, if it was not answered."""
        if self._sent is None:
            self._sent = AllocateCall(self._response_id, tuple(sorted(self._changed.items())), tuple(self._releases))
            self._changed, self._releases = {}, []
        return self._sent

    def answered(self, answer: AllocateAnswer) -> tuple[Allocation, ...]:
        """Handles the answer to the call. Returns the granted containers that are still needed; releases the others."""
        self._response_id, self._sent = answer.response_id, None
        granted: list[Allocation] = []
        for allocation in answer.allocated:
            if allocation.number in self._outstanding:
                self._outstanding.discard(allocation.number)
                # a change that was not sent yet would ask for a second container
                self._changed.pop(allocation.number, None)
                granted.append(allocation)
            else:
                # granted while it was being withdrawn, or twice after a restart of the ResourceManager
                self._releases.append(allocation.container)
        return tuple(granted)

    def registered_again(self) -> None:
        """The ResourceManager was restarted, and this attempt has registered again."""
        lost = () if self._sent is None else self._sent.releases
        self._response_id, self._sent = 0, None
        self._changed = dict.fromkeys(self._outstanding, 1)
        self._releases = [*lost, *self._releases]


# ---- roster ----------------------------------------------------------------------------------------------------------

REASON_CHARS_MAX = 500
OVER_MEMORY = frozenset({-103, -104})
"""Exit codes of containers that YARN has killed for their virtual or physical memory (`ContainerExitStatus`)."""
MORE_MEMORY = "raise `memory` of the workers in --config"
_MEMORY = "memory limit"
"""In the line by which NodeManagers say that a container used too much, in the words of all versions."""


class HeldPhase(Enum):
    """As in the picture above."""

    REQUESTED = auto()
    GRANTED = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Held:
    """One container. container: its id, empty until it is granted; reason: why it has ended."""

    number: int
    phase: HeldPhase
    container: str = ""
    node: str = ""
    reason: str = ""
    is_released: bool = False


class Roster:
    """The containers. Belongs to one lock."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}

    def listed(self) -> tuple[Held, ...]:
        """All of them, by number."""
        return tuple(self._held[number] for number in sorted(self._held))

    def find(self, number: int) -> Held | None:
        """The container of a number."""
        return self._held.get(number)

    def requested(self, number: int) -> bool:
        """Notes a request. Returns False if the number is there."""
        if number in self._held:
            return False
        self._held[number] = Held(number, HeldPhase.REQUESTED)
        return True

    def granted(self, allocation: Allocation) -> None:
        """Notes a grant: its process is being started."""
        self._held[allocation.number] = Held(
            allocation.number, HeldPhase.GRANTED, allocation.container, allocation.node
        )

    def started(self, number: int) -> None:
        """The node has accepted the container. Its end may have been reported before."""
        held = self._held.get(number)
        if held is not None and held.phase is HeldPhase.GRANTED:
            self._held[number] = replace(held, phase=HeldPhase.RUNNING)

    def failed(self, number: int, reason: str) -> None:
        """The container could not be started."""
        held = self._held.get(number)
        if held is not None and held.phase is HeldPhase.GRANTED:
            self._held[number] = replace(held, phase=HeldPhase.ENDED, reason=_short(reason))

    def kept(self, allocations: Iterable[Allocation]) -> None:
        """Adds the containers that an earlier attempt has started. After a restart of the ResourceManager the list may
        be empty: the roster drops nothing then."""
        for each in allocations:
            if each.number not in self._held:
                self._held[each.number] = Held(each.number, HeldPhase.RUNNING, each.container, each.node)

    def ended(self, ends: Iterable[ContainerEnd]) -> None:
        """Notes ends. Those of containers that an earlier attempt had, and this one never knew, are ignored."""
        by_container = {held.container: held for held in self._held.values() if held.container}
        for end in ends:
            held = by_container.get(end.container)
            if held is None or held.phase is HeldPhase.ENDED:
                continue
            if held.is_released and end.exit_code not in OVER_MEMORY:
                del self._held[held.number]
            else:
                # a container that was killed for its memory may have been released before YARN names the reason
                ended = replace(held, phase=HeldPhase.ENDED, reason=reason_of(end), is_released=False)
                self._held[held.number] = ended

    def released(self, number: int) -> Held | None:
        """Releases a container. Returns the one that YARN has to end; None: there is none, or it was asked before."""
        held = self._held.get(number)
        if held is None or held.is_released:
            return None
        if held.phase in {HeldPhase.ENDED, HeldPhase.REQUESTED}:
            del self._held[number]
            return held if held.phase is HeldPhase.REQUESTED else None
        self._held[number] = replace(held, is_released=True)
        return held


def reason_of(end: ContainerEnd) -> str:
    """Why a container has ended, in YARN's words: exit code and diagnostics. For a container that was killed for its
    memory, the remedy follows."""
    text = _said(end.diagnostics)
    code = f"exit code {end.exit_code}"
    remedy = f"; {MORE_MEMORY}" if end.exit_code in OVER_MEMORY else ""
    return _short(f"{code}: {text}{remedy}" if text else f"{code}{remedy}")


def _said(diagnostics: str) -> str:
    """The lines of YARN's diagnostics that say something: without its own stack traces and frames."""
    lines = [line.strip() for line in diagnostics.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("at ", "[20", "Last 4096 bytes", "Shell output:"))]
    memory = next((line for line in lines if _MEMORY in line), None)
    if memory is not None:
        return memory
    # the end of what it printed comes last
    return " ".join(kept[-3:] if len(kept) > 3 else kept)


def _short(text: str) -> str:
    return text if len(text) <= REASON_CHARS_MAX else ".." + text[-REASON_CHARS_MAX + 2 :]
