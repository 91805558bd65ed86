"""The options of `headrace submit` that no other verb has, and the options that a target refuses: an option without
meaning for the target is an error, never ignored."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, assert_never

import typer

from headrace.cli.arguments import given_option


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


_NO_COORDINATOR = dict.fromkeys(("ha", "ledger", "key_file", "host"), "there is no coordinator: leave it out")
_OF_SPARK = dict.fromkeys(("master", "conf"), "it is for Spark: give --target spark too")
_OF_KUBERNETES = dict.fromkeys(("name", "namespace", "config"), "it is for Kubernetes: give --target kubernetes too")
_NAMESPACE = {"namespace": "it is for Kubernetes: leave it out"}
ON_SPARK: Mapping[str, str] = {
    "mode": "Spark runs the job, whatever clusters of headrace there are: leave it out",
    "claim": "on Spark a savepoint's files stay the savepoint's: leave it out",
    "take_over": "the same command takes a job on Spark over by itself: leave it out",
    "allow_duplicate": "the same command goes on with the job that runs: leave it out",
    "wait": "this process is the driver and stays until the job has ended: leave it out",
    "coordinator": "Spark is found by --master: give that one",
    **_NO_COORDINATOR,
    **_OF_KUBERNETES,
}
"""Options without meaning with --target spark: parameter -> remedy."""
ON_KUBERNETES: Mapping[str, str] = {
    **dict.fromkeys(("ha", "ledger", "key_file", "host"), "--config FILE describes the cluster"),
    "coordinator": "the cluster is found by --name and --namespace: give these",
    **_OF_SPARK,
}
ON_YARN: Mapping[str, str] = {
    **dict.fromkeys(("ha", "ledger", "key_file", "host"), "--config FILE describes the cluster"),
    "coordinator": "the cluster is found by --name: give that one",
    **_OF_SPARK,
    **_NAMESPACE,
}
ON_HOSTS: Mapping[str, str] = {**_OF_SPARK, **_OF_KUBERNETES}
APPLICATION_ELSEWHERE: Mapping[str, str] = {
    "parallelism": "its jobs get the workers that they need, up to workers.max of --config",
}


def require_fitting(context: typer.Context, target: Target, mode: Mode) -> None:
    """Raises UserError for the first command line option that the target does not take. Variables of the environment
    (HEADRACE_COORDINATOR) are ignored, because other commands use them, too.
    """
    from headrace.core.errors import UserError

    for name, remedy in _refused(target, mode).items():
        if (option := given_option(context, [name])) is not None:
            raise UserError(f"{option} means nothing {_place(name, target)}", remedy=remedy)


def _refused(target: Target, mode: Mode) -> Mapping[str, str]:
    match target:
        case Target.SPARK:
            return ON_SPARK
        case Target.KUBERNETES if mode is Mode.APPLICATION:
            return {**ON_KUBERNETES, **APPLICATION_ELSEWHERE}
        case Target.KUBERNETES:
            return ON_KUBERNETES
        case Target.YARN if mode is Mode.APPLICATION:
            return {**ON_YARN, **APPLICATION_ELSEWHERE}
        case Target.YARN:
            return ON_YARN
        case Target.STANDALONE:
            return ON_HOSTS
        case _:
            assert_never(target)


def _place(name: str, target: Target) -> str:
    if name in _OF_SPARK:
        return f"without --target {Target.SPARK}"
    if name in _OF_KUBERNETES:
        return f"without --target {Target.KUBERNETES}"
    return f"with --target {target}"
