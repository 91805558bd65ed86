"""What a coordinator does about its leadership. Pure.

                Elected: lead                InDoubt: hold
    WAITING ──────────────────> LEADING <────────────────────> HOLDING
       │                           │         Elected: resume      │
       │ Lost, StorageLost         │ Lost, Replaced,              │ the same
       │                           │ StorageLost, WorkersLost     │
       └────────> OVER <───────────┴──────────────────────────────┘

In HOLDING a coordinator refuses every request that would change something. Its jobs go on, because a job's journal
(`checkpoint.journal`) lets one coordinator decide, whatever an election says (decision 27). In OVER it gives up: it
suspends its jobs and starts anew as a standby.

An elector of `leadership` reports Elected, InDoubt and Lost; the ledger's writer Replaced and StorageLost
(`coordinator.leading.candidate`); the term that leads WorkersLost (`coordinator.leading.term`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from headrace.leadership.elector import Elected, ElectorEvent, InDoubt, Lost


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another coordinator's record follows this one's in the ledger."""

    reason: str


@dataclass(frozen=True, slots=True)
class StorageLost:
    """The ledger has not been reached for long: another host may reach it."""

    reason: str


@dataclass(frozen=True, slots=True)
class WorkersLost:
    """All workers have been gone for long: another host may reach them."""

    reason: str


TermOver = Replaced | StorageLost | WorkersLost
"""What a leader notices without its elector, after which it leads no more."""
CandidacyEvent = ElectorEvent | TermOver


@dataclass(frozen=True, slots=True)
class Lead:
    """Take the ledger over, and lead."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Accept nothing until `Resume`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Accept requests again."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Suspend the jobs, and stop. The last effect."""

    reason: str


CandidacyEffect = Lead | Hold | Resume | GiveUp


class Standing(Enum):
    """A coordinator's place in the election."""

    WAITING = auto()
    LEADING = auto()
    HOLDING = auto()
    OVER = auto()


class Candidacy:
    """The candidacy of one coordinator. has_standbys: others may take its place; if not, it never gives up because of
    storage or workers that are out of reach."""

    def __init__(self, *, has_standbys: bool) -> None:
        self._has_standbys = has_standbys
        self._standing = Standing.WAITING

    @property
    def standing(self) -> Standing:
        """Its place now."""
        return self._standing

    def on(self, event: CandidacyEvent) -> CandidacyEffect | None:
        """Handles an event; returns what has to be done. After `GiveUp` it ignores every event."""
        if self._standing is Standing.OVER:
            return None
        match event:
            case Elected():
                return self._on_elected()
            case InDoubt(reason):
                if self._standing is not Standing.LEADING:
                    return None
                self._standing = Standing.HOLDING
                return Hold(reason)
            case StorageLost() | WorkersLost() if not self._has_standbys:
                return None
            case Lost(reason) | Replaced(reason) | StorageLost(reason) | WorkersLost(reason):
                self._standing = Standing.OVER
                return GiveUp(reason)
            case _:
                assert_never(event)

    def _on_elected(self) -> CandidacyEffect | None:
        before, self._standing = self._standing, Standing.LEADING
        match before:
            case Standing.WAITING:
                return Lead()
            case Standing.HOLDING:
                return Resume()
            case _:
                return None
