"""The options of `headrace submit` that no other verb has."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Mode(StrEnum):
    """The kind of cluster that a job runs on."""

    SESSION = "session"
    PER_JOB = "per-job"
    APPLICATION = "application"


class Target(StrEnum):
    """The system that provides the processes."""

    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"
    SPARK = "spark"


ModeOption = Annotated[Mode, typer.Option("--mode", help="On a running cluster (session), or on a cluster of its own.")]
TargetOption = Annotated[Target, typer.Option("--target", help="The system that provides the processes.")]
FromSavepoint = Annotated[
    str | None, typer.Option(metavar="PATH", help="Start from a savepoint or checkpoint.", show_default=False)
]
Claim = Annotated[bool, typer.Option("--claim", help="Its files become the job's. Default: they are copied.")]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Start even if the job of that checkpoint may still run.")]
Parallelism = Annotated[int | None, typer.Option(min=1, help="Subtasks of a node that sets none itself.")]
AllowDuplicate = Annotated[bool, typer.Option("--allow-duplicate", help="Submit even if a job of that name runs.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the job has ended; exit code 1 unless it finished.")]
