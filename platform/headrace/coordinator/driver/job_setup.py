"""The setup of a job's driver, and the name by which it writes to the job's journal.

The name has the term of its coordinator. A deposed leader may still put one record into a journal after its successor
has read it. Then the successor's first put fails, and its driver counts as replaced. The term in the other writer's
name shows that it is an earlier leader, so the successor continues with another driver.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.stores.store import ObjectStore
from headrace.coordinator.job.config import JobConfig
from headrace.core.source_state import AppliedFloor
from headrace.processes.spawning import SpawnStarter, Starter

if TYPE_CHECKING:
    from headrace.execution.planning import JobPlans


@dataclass(frozen=True, slots=True)
class JobSetup:
    """The parts of a job that do not change while its driver runs.

    store         the job's folder in checkpoint storage; storage: its URL
    writer        random token of this driver, for journal records
    code          URLs of the user's archives; python_path: import path entries for the user's functions
    floors        watermarks that an earlier run assigned to idle partitions, to be applied again
    claimed       URL of the folder of the savepoint that the job owns: once a checkpoint of the job is committed, what
                  no retained one names is deleted there; None: there is none
    log_folder    folder for the connector host's log; None: no log
    environment   environment variables added for the connector host
    starter       starts the job's connector host
    """

    config: JobConfig
    plans: JobPlans
    store: ObjectStore
    storage: str
    writer: str
    code: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    floors: tuple[AppliedFloor, ...] = ()
    claimed: str | None = None
    log_folder: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    starter: Starter = field(default_factory=SpawnStarter)


_NAME = re.compile(r"term-(\d+)-[0-9a-f]{16}\Z")


def new_writer(term: int) -> str:
    """A name that no other driver has."""
    return f"term-{term}-{secrets.token_hex(8)}"


def is_of_earlier_term(writer: str | None, term: int) -> bool:
    """Whether a writer is a driver of a coordinator that led before. Others are not: `headrace run`, Spark, and
    coordinators with the same journal and another ledger, of which the one with the higher term goes on."""
    match = None if writer is None else _NAME.match(writer)
    return match is not None and int(match[1]) < term
