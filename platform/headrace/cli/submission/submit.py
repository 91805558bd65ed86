"""`headrace submit`: submits a pipeline to a cluster.

An option without meaning for the target is an error, never ignored (`ON_SPARK` and the other tables).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, assert_never

import typer

from headrace.cli.arguments import (
    AcceptNewTopic,
    AllowDrained,
    AllowDroppedState,
    AllowLostOutput,
    Archives,
    Coordinator,
    File,
    Json,
    MaxParallelism,
    OldArchive,
    PyFiles,
    Rename,
    Set,
    both_spellings,
    given_option,
    overrides_of,
)
from headrace.cli.cluster.cluster_target import ClusterConfig, ClusterName, Namespace
from headrace.cli.cluster.election_options import Ha, Host, KeyFile, Ledger, election_of
from headrace.cli.errors import reporting_errors
from headrace.cli.origin_options import OriginOptions
from headrace.cli.spark.replay_options import SparkTarget
from headrace.cli.spark.settings import Conf, Master
from headrace.cli.submission.submission import LocalPlan, load_to_submit, submit_to_session, travelling_code
from headrace.cli.submission.targets import (
    KubernetesTarget,
    YarnTarget,
    run_alone,
    run_alone_on_pods,
    run_alone_on_yarn,
    run_application,
    run_application_on_pods,
    run_application_on_yarn,
)
from headrace.cli.verdicts import tell_verdicts
from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest
    from headrace.local.cluster import Election
    from headrace.local.pipeline_file import Loaded


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


@reporting_errors()
def submit(
    context: typer.Context,
    file: File,
    mode: ModeOption = Mode.SESSION,
    target: TargetOption = Target.STANDALONE,
    from_savepoint: FromSavepoint = None,
    claim: Claim = False,
    take_over: TakeOver = False,
    allow_dropped_state: AllowDroppedState = False,
    max_parallelism: MaxParallelism = None,
    allow_drained: AllowDrained = False,
    allow_lost_output: AllowLostOutput = False,
    accept_new_topic: AcceptNewTopic = None,
    rename: Rename = None,
    parallelism: Parallelism = None,
    py_files: PyFiles = None,
    archives: Archives = None,
    old_archive: OldArchive = None,
    set_: Set = None,
    allow_duplicate: AllowDuplicate = False,
    wait: Wait = False,
    ha: Ha = None,
    ledger: Ledger = None,
    key_file: KeyFile = None,
    host: Host = None,
    coordinator: Coordinator = None,
    master: Master = None,
    conf: Conf = None,
    name: ClusterName = None,
    namespace: Namespace = None,
    config: ClusterConfig = None,
    as_json: Json = False,
) -> None:
    """Submit a pipeline to a cluster; prints the job id. With --target spark this process stays: it is the driver."""
    require_fitting(context, target, mode)
    origin = OriginOptions(
        path=from_savepoint,
        rename=rename,
        allow_dropped_state=allow_dropped_state,
        allow_drained=allow_drained,
        allow_lost_output=allow_lost_output,
        accept_new_topic=accept_new_topic,
        max_parallelism=max_parallelism,
    )
    set_ = overrides_of(set_, max_parallelism)
    if target is Target.SPARK:
        on_spark = SparkTarget(master, conf=conf, py_files=py_files, archives=both_spellings(archives, old_archive))
        _follow_on_spark(file, set_, origin, on_spark, parallelism=parallelism, as_json=as_json)
        return
    election = election_of(ha, ledger, key_file, host)
    cluster = _described_cluster(target, name, namespace, config)
    if mode is Mode.APPLICATION:
        _application(file, cluster, parallelism, election, wait=wait, as_json=as_json)
        return
    if mode is Mode.SESSION:
        coordinator = _running(cluster, coordinator, election)
    loaded = load_to_submit(file, set_, parallelism)
    plan = LocalPlan(loaded)
    if from_savepoint is not None:
        tell_verdicts(
            plan.compiled,
            from_savepoint,
            origin.renames,
            allow_dropped_state=allow_dropped_state,
            rehashes=max_parallelism is not None,
        )
    code = travelling_code(loaded, file, py_files=py_files, archives=both_spellings(archives, old_archive))
    request = _request(loaded, origin).model_copy(
        update={"code": code, "claim": claim, "take_over": take_over, "allow_duplicate": allow_duplicate}
    )
    if mode is Mode.PER_JOB:
        _alone(request, plan, cluster, election, wait=wait, as_json=as_json)
    else:
        submit_to_session(request, plan, coordinator, wait=wait, as_json=as_json)


DescribedCluster: TypeAlias = KubernetesTarget | YarnTarget | None
"""A cluster that a file describes. None: coordinator and workers are processes of hosts."""


def _described_cluster(
    target: Target, name: str | None, namespace: str | None, config: Path | None
) -> DescribedCluster:
    if target is Target.KUBERNETES:
        return KubernetesTarget(name, namespace, config)
    return YarnTarget(name, config) if target is Target.YARN else None


def _running(cluster: DescribedCluster, coordinator: str | None, election: Election | None) -> str | None:
    """Returns the address of a session cluster's coordinator; None: the default one."""
    if election is not None:
        raise UserError(
            "--ha means nothing to a cluster that runs",
            remedy="--mode per-job makes a cluster for this job; --coordinator URL names one that runs",
        )
    return coordinator if cluster is None else cluster.running()


def _application(
    file: str,
    cluster: DescribedCluster,
    parallelism: int | None,
    election: Election | None,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    match cluster:
        case KubernetesTarget():
            run_application_on_pods(file, cluster, wait=wait, as_json=as_json)
        case YarnTarget():
            run_application_on_yarn(file, cluster, wait=wait, as_json=as_json)
        case None:
            run_application(file, parallelism, election, wait=wait, as_json=as_json)
        case _:
            assert_never(cluster)


def _alone(
    request: SubmitRequest,
    plan: LocalPlan,
    cluster: DescribedCluster,
    election: Election | None,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    name = plan.compiled.pipeline.name
    match cluster:
        case KubernetesTarget():
            run_alone_on_pods(request, cluster, name=name, wait=wait, as_json=as_json)
        case YarnTarget():
            run_alone_on_yarn(request, cluster, name=name, wait=wait, as_json=as_json)
        case None:
            run_alone(plan.compiled, request, election, wait=wait, as_json=as_json)
        case _:
            assert_never(cluster)


def _follow_on_spark(
    file: str,
    set_: list[str] | None,
    origin: OriginOptions,
    on_spark: SparkTarget,
    *,
    parallelism: int | None,
    as_json: bool,
) -> None:
    """The same as `headrace replay --follow`, under the verb that starts jobs."""
    from headrace.cli.spark.replay_command import ReplayCommand
    from headrace.cli.spark.replay_options import Following, History

    ReplayCommand(
        file=file,
        set_=set_ or [],
        history=History(),
        origin=origin,
        work=Following(),
        target=on_spark,
        parallelism=parallelism,
        allow_repeated_output=False,
        as_json=as_json,
    ).run()


def _request(loaded: Loaded, origin: OriginOptions) -> SubmitRequest:
    from headrace.checkpoint.paths import absolute
    from headrace.client.requests import SubmitRequest
    from headrace.client.submission import file_form

    return SubmitRequest(
        pipeline=file_form(loaded.pipeline),
        from_savepoint=None if origin.path is None else absolute(origin.path),
        renames=origin.renames,
        allow_dropped_state=origin.allow_dropped_state,
        allow_drained=origin.allow_drained,
        allow_lost_output=origin.allow_lost_output,
        accepted_topics=origin.accepted_topics,
        max_parallelism=origin.max_parallelism,
    )
