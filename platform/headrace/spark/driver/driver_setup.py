"""The common part of the setup of a replay and of a followed pipeline: the configuration, the engine, the
publication."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.unique_names import unique_part
from headrace.core.clock import Clock
from headrace.core.source_state import AppliedFloor
from headrace.execution.origin import Origin
from headrace.execution.planning import JobPlans
from headrace.spark.driver.computation import Computation
from headrace.spark.driver.publication import Publication, Say
from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.levels.exchange import Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverWish:
    """The options of a driver's run.

    job, storage     the job's id, and the URL of its folder in checkpoint storage
    parallelism      of nodes that set none themselves
    savepoint        folder for a savepoint at the end
    final            windows are closed at the end even with a savepoint
    origin           savepoint or checkpoint to start from, if the job has no checkpoint yet
    accepted_topics  topics of the origin that may be other ones now: they begin as new ones
    floors           watermarks that an earlier run assigned to idle partitions, to be applied again
    python_path      import path entries for the user's functions
    allow_repeated   publish even if a sink may have forgotten which rows it has
    """

    job: str
    storage: str
    parallelism: int
    savepoint: str | None = None
    final: bool = False
    origin: Origin | None = None
    accepted_topics: tuple[str, ...] = ()
    floors: tuple[AppliedFloor, ...] = ()
    python_path: tuple[str, ...] = ()
    allow_repeated: bool = False


def config_of(wish: DriverWish, plans: JobPlans, *, bounded: bool) -> DriverConfig:
    """Returns the configuration of one driver, with unique names for its savepoints."""
    origin = wish.origin
    return DriverConfig(
        job=wish.job,
        storage=wish.storage,
        parallelism=wish.parallelism,
        plan_hash=plans.facts(wish.parallelism).plan_hash,
        unique=unique_part(),
        bounded=bounded,
        begin=None if origin is None else origin.manifest,
        begin_url=None if origin is None else origin.url,
        savepoint=wish.savepoint,
        final=wish.final,
    )


def computation_of(
    wish: DriverWish, plans: JobPlans, exchange: Exchange, clock: Clock, *, say: Say, publish: bool = True
) -> Computation:
    """Returns the job's engine. publish: the rows will be published to the sinks."""
    return Computation(
        plans=plans,
        parallelism=wish.parallelism,
        job=wish.job,
        storage=wish.storage,
        exchange=exchange,
        clock=clock,
        say=say,
        floors=wish.floors,
        python_path=wish.python_path,
        publish=publish,
    )


def publication_of(wish: DriverWish, plans: JobPlans, exchange: Exchange, clock: Clock, *, say: Say) -> Publication:
    """Returns the job's publication."""
    return Publication(plans, wish.parallelism, wish.storage, exchange, say, clock, allow_repeated=wish.allow_repeated)
