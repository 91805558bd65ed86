"""What happens to a job in one seed: rounds of faults with pauses. Pure: a seed gives the same plan again.

A round begins with everything whole and ends with everything mended and checked. Within it faults come as they come:
what one has killed stays dead unless somebody says `cluster start`, and some strike at the same time. Which process of
a kind is struck depends on who is there then; `choice` (0 to 1) picks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

LEASE_S = 4.0
"""What `support.clusters.session` gives to its clusters: those that stand still for longer are replaced."""
STEPS_MAX = 4
"""A round's."""


class Target(Enum):
    """Which processes. A worker's slots end with it; a coordinator's connector host with that. The coordinator is the
    one that leads."""

    SLOT = "a slot"
    SLOTS_OF_WORKER = "all slots of a worker"
    WORKER = "a worker"
    WORKER_AND_SLOTS = "a worker with its slots"
    COORDINATOR = "the coordinator"
    CONNECTOR_HOST = "the connector host"
    COMMITTER = "coordinator and connector host"
    ALL = "all processes"
    STANDBY = "a standby"
    COORDINATORS = "all coordinators"


_TARGETS = {
    Target.SLOT: 6,
    Target.SLOTS_OF_WORKER: 2,
    Target.WORKER: 4,
    Target.WORKER_AND_SLOTS: 3,
    Target.COORDINATOR: 5,
    Target.CONNECTOR_HOST: 3,
    Target.COMMITTER: 3,
    Target.ALL: 2,
}
_TARGETS_WITH_STANDBYS = {
    **_TARGETS,
    Target.COORDINATOR: 12,
    Target.COMMITTER: 5,
    Target.STANDBY: 4,
    Target.COORDINATORS: 3,
}
"""How often each is chosen."""


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9."""

    target: Target
    choice: float


@dataclass(frozen=True, slots=True)
class Terminate:
    """SIGTERM to the coordinator that leads: it ends in order, and a standby leads."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """SIGSTOP, and SIGCONT after so long."""

    target: Target
    choice: float
    seconds: float


@dataclass(frozen=True, slots=True)
class HaltBroker:
    """The broker stands still for so long. (One that is killed alone may forget what it had acknowledged.)"""

    seconds: float


@dataclass(frozen=True, slots=True)
class Rescale:
    """`headrace rescale`."""

    parallelism: int


@dataclass(frozen=True, slots=True)
class Savepoint:
    """`headrace savepoint`."""


@dataclass(frozen=True, slots=True)
class TakeUp:
    """`headrace stop`, with a savepoint or without, then `headrace submit --from-savepoint`."""

    savepoint: bool
    parallelism: int


@dataclass(frozen=True, slots=True)
class Upgrade:
    """`headrace upgrade` to a pipeline that has a node more, or not."""

    has_more: bool
    parallelism: int


@dataclass(frozen=True, slots=True)
class Start:
    """What has ended is started, as by `headrace cluster start`: no fault, but help at some moment."""


Fault = Kill | Terminate | Freeze | HaltBroker | Rescale | Savepoint | TakeUp | Upgrade
Deed = Fault | Start


@dataclass(frozen=True, slots=True)
class Step:
    """After a pause, one deed; or two, of which the second begins a little later and does not wait for the first."""

    pause_s: float
    deeds: tuple[Deed, ...]
    apart_s: float = 0.0


Round = tuple[Step, ...]


def plan_of(seed: int, faults: int, *, standbys: bool = False) -> tuple[Round, ...]:
    """Rounds with that many faults in all. standbys: the cluster has some."""
    chance = Random(seed)
    rounds: list[Round] = []
    left = faults
    while left > 0:
        round_ = _round(chance, left, standbys=standbys)
        left -= faults_in((round_,))
        rounds.append(round_)
    return tuple(rounds)


def faults_in(rounds: tuple[Round, ...]) -> int:
    """How many there are; help is none."""
    return sum(not isinstance(deed, Start) for round_ in rounds for step in round_ for deed in step.deeds)


def _round(chance: Random, faults_max: int, *, standbys: bool) -> Round:
    steps: list[Step] = []
    left = faults_max
    for _ in range(chance.randint(1, STEPS_MAX)):
        if left == 0:
            break
        pause_s = round(chance.uniform(0.0, 3.0), 2)
        if left >= 2 and chance.random() < 0.3:
            steps.append(
                Step(
                    pause_s,
                    (_fault(chance, standbys=standbys), _fault(chance, standbys=standbys)),
                    round(chance.uniform(0.0, 1.5), 2),
                )
            )
            left -= 2
            continue
        fault = _fault(chance, standbys=standbys)
        steps.append(Step(pause_s, (fault,)))
        left -= 1
        if isinstance(fault, Kill | Terminate) and chance.random() < 0.5:
            steps.append(Step(round(chance.uniform(0.0, 2.0), 2), (Start(),)))
    return tuple(steps)


def _fault(chance: Random, *, standbys: bool) -> Fault:
    kinds = {Kill: 30, Freeze: 25, HaltBroker: 8, Rescale: 10, Savepoint: 5, TakeUp: 10, Upgrade: 8}
    if standbys:
        kinds[Terminate] = 8
    kind = chance.choices(tuple(kinds), weights=tuple(kinds.values()))[0]
    if kind is Kill:
        return Kill(_target(chance, standbys=standbys), chance.random())
    if kind is Terminate:
        return Terminate()
    if kind is Freeze:
        spans = ((0.2, LEASE_S - 1.0), (LEASE_S - 1.0, LEASE_S + 1.5), (LEASE_S + 1.5, 2.5 * LEASE_S))
        target, choice = _target(chance, standbys=standbys), chance.random()
        return Freeze(target, choice, round(chance.uniform(*chance.choice(spans)), 2))
    if kind is HaltBroker:
        return HaltBroker(round(chance.uniform(0.5, 6.0), 2))
    if kind is Rescale:
        return Rescale(chance.randint(1, 3))
    if kind is TakeUp:
        return TakeUp(chance.random() < 0.5, chance.randint(1, 3))
    if kind is Upgrade:
        return Upgrade(chance.random() < 0.5, chance.randint(1, 3))
    return Savepoint()


def _target(chance: Random, *, standbys: bool) -> Target:
    weights = _TARGETS_WITH_STANDBYS if standbys else _TARGETS
    return chance.choices(tuple(weights), weights=tuple(weights.values()))[0]
