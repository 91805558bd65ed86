"""The containers of one application, by the number of the request that each was granted for. Pure.

    requested ──> granted ──> running ──> ended ──> forgotten
        └────────────┴───────────┴── released: forgotten once YARN reports the end

A number survives the ApplicationMaster: YARN returns it with the containers that the next attempt keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto

from headrace.yarn.records import Allocation, ContainerEnd

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
        """Takes the containers over that an earlier attempt has started. After a restart of the ResourceManager the
        list may be empty: nothing is dropped for that."""
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
                # one that was killed for its memory may have been given up, and released, before YARN names the reason
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
    """Why a container has ended, in YARN's words: the exit code, and what it says beside that. Its end is the remedy,
    for one that was killed for its memory."""
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
