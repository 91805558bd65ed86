"""Decides which action is safe for an open transaction, and why. Pure.

    its job          a complete checkpoint names it, not `committed`   no checkpoint names it
    runs             leave it: the job commits or ends it itself       leave it
    is suspended     commit                                            leave it (abort by force)
    has ended        commit                                            abort
    is not known     -                                                 leave it (abort by force)

A complete checkpoint is a promise: a transaction that it names is never aborted, not even by force. A recovery would
commit it, and a second commit changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.manifest import CommittableDocument
from headrace.connect.sink import OpenTransaction

ATTEMPTS = 64
"""Transaction names may contain an attempt number modulo this."""


class Action(StrEnum):
    """An action on an open transaction. LEAVE: none, because its job or another cluster will end it."""

    COMMIT = "commit"
    ABORT = "abort"
    LEAVE = "leave"


class Phase(StrEnum):
    """The phase of the transaction's job."""

    LIVE = "live"
    SUSPENDED = "suspended"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class JobStanding:
    """The known facts of a job.

    state       name of the job's state, for users
    attempt     the newest attempt's number
    epoch       the newest complete checkpoint, if no record shows that it is committed; decided: its committables
    committed   committables of the retained checkpoints that are committed
    """

    phase: Phase
    state: str = ""
    attempt: int = 0
    epoch: int | None = None
    decided: tuple[CommittableDocument, ...] = ()
    committed: tuple[CommittableDocument, ...] = ()

    @staticmethod
    def of(phase: Phase, state: str, journal: Journal) -> JobStanding:
        """Returns the standing that the journal shows."""
        waiting = journal.uncommitted
        return JobStanding(
            phase=phase,
            state=state,
            attempt=journal.attempt,
            epoch=None if waiting is None else waiting.manifest.epoch,
            decided=() if waiting is None else waiting.manifest.committables,
            committed=tuple(
                item for record in journal.checkpoints if record is not waiting for item in record.manifest.committables
            ),
        )


UNKNOWN = JobStanding(Phase.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The safe action, and why. `by_force`: the action that `--force` allows, too; `epoch`: the checkpoint that names
    the transaction.
    """

    safe: Action
    why: str
    by_force: Action = Action.LEAVE
    epoch: int | None = None

    def allows(self, wanted: Action, *, force: bool) -> bool:
        """Whether the action may be done."""
        return self.safe is wanted or (force and self.by_force is wanted)


def judged(there: OpenTransaction, job: JobStanding) -> Judgement:
    """Judges one open transaction of a job."""
    if there.ending:
        return Judgement(Action.LEAVE, "it was ended already, and goes as soon as the brokers have told all partitions")
    if named := _naming(there, job.decided):
        return _decided(named, job)
    if job.phase is not Phase.LIVE and (named := _naming(there, job.committed)):
        why = f"checkpoint {named.epoch} of its job is committed, yet it is open: a second commit changes nothing else"
        return Judgement(Action.COMMIT, why, epoch=named.epoch)
    # a broker ends transactions by name: aborting this one would fence the decided one of the same name
    if any(item.sink == there.sink and item.name == there.name for item in job.decided if item.name):
        why = f"ending its name would also end what checkpoint {job.epoch} decided under it: commit that first"
        return Judgement(Action.LEAVE, why)
    return _undecided(there, job)


def _decided(named: CommittableDocument, job: JobStanding) -> Judgement:
    if job.phase is Phase.LIVE:
        return Judgement(Action.LEAVE, f"its job is {job.state} and commits it by itself", epoch=job.epoch)
    why = f"checkpoint {job.epoch} is complete and names it: {named.rows} rows that must become visible"
    return Judgement(Action.COMMIT, why, epoch=job.epoch)


def _undecided(there: OpenTransaction, job: JobStanding) -> Judgement:
    match job.phase:
        case Phase.LIVE if there.attempt >= 0 and there.attempt % ATTEMPTS != job.attempt % ATTEMPTS:
            why = f"it is of an earlier attempt; its job is {job.state} and ends it at one of its next checkpoints"
            return Judgement(Action.LEAVE, why)
        case Phase.LIVE:
            return Judgement(Action.LEAVE, f"its job is {job.state}: it is what the job writes just now")
        case Phase.SUSPENDED:
            why = "no complete checkpoint names it; its job goes on when its coordinator can, and ends it then"
            return Judgement(Action.LEAVE, why, by_force=Action.ABORT)
        case Phase.ENDED:
            why = f"its job has ended ({job.state}) and no complete checkpoint names it: its rows were never promised"
            return Judgement(Action.ABORT, why)
        case Phase.UNKNOWN:
            why = "no job here knows it: another cluster, or a `headrace run`, may be about to commit it"
            return Judgement(Action.LEAVE, why, by_force=Action.ABORT)
        case _:
            assert_never(job.phase)


def _naming(there: OpenTransaction, items: Sequence[CommittableDocument]) -> CommittableDocument | None:
    """Returns the committable of exactly this transaction: its identity must be the same, not only its name."""
    for item in items:
        same_name = not item.name or item.name == there.name
        known = there.identity and all(item.payload.get(key) == value for key, value in there.identity.items())
        if item.sink == there.sink and same_name and known:
            return item
    return None


@dataclass(frozen=True, slots=True)
class Plan:
    """The transactions that a command ends, and those that it was asked to end but must not."""

    chosen: tuple[OpenTransaction, ...]
    refused: tuple[OpenTransaction, ...]

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Sink -> names of the chosen transactions."""
        names: dict[str, dict[str, None]] = {}
        for each in self.chosen:
            names.setdefault(each.sink, {})[each.name] = None
        return {sink: tuple(own) for sink, own in names.items()}


def planned(
    wanted: Action, found: Iterable[tuple[OpenTransaction, Judgement]], names: Sequence[str], *, force: bool
) -> Plan:
    """Returns the plan of a user's command. `names`: only these; empty: all that may be ended.

    A transaction that was named and may not be ended is refused; without names it is skipped.
    """
    chosen: list[OpenTransaction] = []
    refused: list[OpenTransaction] = []
    for there, judgement in found:
        if not names or there.name in names:
            (chosen if judgement.allows(wanted, force=force) else refused).append(there)
    return Plan(tuple(chosen), tuple(refused))
