"""The interface of a contender: a system under test that runs a job between two topics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from peers.jobs import PARTITIONS, Job
from peers.phase import Measured


@dataclass(frozen=True, slots=True)
class Bout:
    """One round of one contender at one job.

    source                    input topic with at least `job.rows` rows
    small_output, large_output  empty topics for the results of the two measured runs
    scratch_output            a topic for the results of warm-ups
    folder                    for files of this bout
    """

    job: Job
    brokers: str
    source: str
    small_output: str
    large_output: str
    scratch_output: str
    folder: Path


class Contender(Protocol):
    """Runs jobs, each in new processes."""

    @property
    def name(self) -> str:
        """The name in the tables."""

    def run(self, bout: Bout) -> Measured:
        """Runs both sizes. Raises FailedRunError."""


def partition_end(rows: int) -> int:
    """Returns the offset at which each partition ends, so that `rows` rows are before it in all."""
    return rows // PARTITIONS


def child_environment(**variables: str) -> dict[str, str]:
    """Returns this process's environment as a user has it: Python keeps compiled modules."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | variables
