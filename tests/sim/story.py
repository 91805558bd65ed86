"""What a seed makes of a cluster and a job: sizes, settings, and which faults happen."""

from __future__ import annotations

import random
from dataclasses import dataclass

from headrace.spec.settings import Checkpoint, ExponentialDelay, FailureRate, FixedDelay, NoRestart, Restart

FAULTS = (
    "slot killed",
    "slot frozen",
    "worker killed",
    "worker frozen",
    "network cut",
    "coordinator killed",
    "coordinator frozen",
    "coordinator leaves",
    "storage away",
    "host killed",
    "brokers away",
    "partition added",
    "row cannot be read",
    "savepoint asked",
    "stop asked",
    "cancel asked",
    "rescale asked",
)
_RARE = {"cancel asked": 0.12, "stop asked": 0.3, "row cannot be read": 0.08, "coordinator leaves": 0.3}
_PATIENCE_MS = ((180_000, 300_000, 45_000), (5_000, 8_000, 3_000))


@dataclass(frozen=True, slots=True)
class Story:
    """The frame of one run.

    stops        rows of each partition; None: it never ends
    pause_ms     mean time between two faults
    chaos_ms     how long faults happen
    treachery    how likely a coordinator dies or sleeps just when it has put a record
    commits      the sink shows what is committed; transactional: it does so by Kafka's transactions
    transaction_ms   after which brokers give them up
    retire_epoch     producer epoch from which on names are left
    lost_answers, denied   how likely a broker's answer is lost, or denied
    lax          slots that have lost their lease go on for a while
    unforeseen   how likely performing an effect raises, before it is done or after that; a master fails less often
    patience_ms  how long a deployment, slots, and the end of slots are waited for
    hangs        how likely a slot never opens
    """

    workers: int
    slots: int
    parallelism: int
    stops: tuple[int | None, ...]
    discovery_ms: int | None
    commits: bool
    checkpoint: Checkpoint
    restart: Restart
    faults: tuple[str, ...]
    pause_ms: int
    chaos_ms: int
    refused: float
    unanswered: float
    commit_failures: float
    declines: float
    doubled: float
    treachery: float
    hangs: float
    refused_for_good: float
    patience_ms: tuple[int, int, int]
    transactional: bool
    transaction_ms: int
    retire_epoch: int
    lost_answers: float
    denied: float
    lax: bool
    unforeseen: float

    @property
    def places(self) -> int:
        """Slots of the whole cluster."""
        return self.workers * self.slots


def story_of(chance: random.Random) -> Story:
    """Draws one."""
    workers, slots = chance.randint(1, 4), chance.randint(1, 3)
    bounded = chance.random() < 0.6
    stops = tuple(chance.randint(0, 400) if bounded else None for _ in range(chance.randint(1, 5)))
    faults = tuple(name for name in FAULTS if chance.random() < _RARE.get(name, 0.5))
    troubled = chance.random() < 0.5
    commits = chance.random() < 0.8
    transactional = commits and chance.random() < 0.85
    transaction_ms = chance.choice([900_000, 120_000, 40_000, 15_000])
    checkpoint = _checkpoint(chance, transaction_ms if transactional else None)
    return Story(
        workers=workers,
        slots=slots,
        parallelism=chance.randint(1, min(3, workers * slots)),
        stops=stops,
        discovery_ms=None if bounded else chance.choice([None, 20_000]),
        commits=commits,
        checkpoint=checkpoint,
        restart=_restart(chance),
        faults=faults,
        pause_ms=chance.choice([3_000, 10_000, 30_000]),
        chaos_ms=chance.choice([20_000, 60_000, 200_000]),
        refused=chance.choice([0.0, 0.02, 0.2]) if troubled else 0.0,
        unanswered=chance.choice([0.0, 0.02, 0.2]) if troubled else 0.0,
        commit_failures=chance.choice([0.0, 0.1, 0.4]),
        declines=chance.choice([0.0, 0.0, 0.1]),
        doubled=chance.choice([0.0, 0.1]),
        treachery=chance.choice([0.0, 0.02, 0.15]),
        hangs=chance.choice([0.0, 0.05]),
        refused_for_good=chance.choice([0.0, 0.0, 0.05]),
        patience_ms=chance.choice(_PATIENCE_MS),
        transactional=transactional,
        transaction_ms=transaction_ms,
        retire_epoch=chance.choice([3, 20, 30_000]),
        lost_answers=chance.choice([0.0, 0.02, 0.2]),
        denied=chance.choice([0.0, 0.0, 0.005]),
        lax=chance.random() < 0.5,
        unforeseen=chance.choice([0.0, 0.0, 0.01, 0.1]),
    )


def _checkpoint(chance: random.Random, transaction_ms: int | None) -> Checkpoint:
    """`transaction_ms`: it must fit into that; None: it need not."""
    intervals, timeouts = ["1s", "3s", "10s"], ["5s", "30s"]
    if transaction_ms is None:
        intervals.append("none")
    elif transaction_ms < 60_000:
        intervals, timeouts = (["1s", "3s"] if transaction_ms > 20_000 else ["1s"]), ["5s"]
    return Checkpoint.model_validate(
        {
            "interval": chance.choice(intervals),
            "timeout": chance.choice(timeouts),
            "min_pause": chance.choice(["0s", "2s"]),
            "tolerable_failures": chance.choice([0, 0, 2]),
            "retained": chance.choice([1, 1, 3]),
        }
    )


def _restart(chance: random.Random) -> Restart:
    drawn = chance.random()
    if drawn < 0.85:
        return ExponentialDelay()
    if drawn < 0.92:
        return FixedDelay(attempts=chance.randint(1, 5), delay_ms=chance.choice([0, 500]))
    return FailureRate(failures=3, per_ms=60_000) if drawn < 0.97 else NoRestart()
