"""`headrace submit`: submits a pipeline to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import (
    AllowDrained,
    AllowDroppedState,
    AllowLostOutput,
    Archives,
    Coordinator,
    File,
    Json,
    OldArchive,
    PyFiles,
    Rename,
    Set,
    both_spellings,
)
from headrace.cli.cluster.cluster_target import ClusterConfig, ClusterName, Namespace
from headrace.cli.cluster.election_options import Ha, Host, KeyFile, Ledger, election_of
from headrace.cli.errors import reporting_errors
from headrace.cli.origin_options import OriginOptions
from headrace.cli.output.verdicts import tell_verdicts
from headrace.cli.spark.replay_options import SparkTarget
from headrace.cli.spark.settings import Conf, Master
from headrace.cli.submission.alone import run_alone, run_application
from headrace.cli.submission.options import (
    AllowDuplicate,
    Claim,
    FromSavepoint,
    Mode,
    ModeOption,
    Parallelism,
    TakeOver,
    Target,
    TargetOption,
    Wait,
)
from headrace.cli.submission.pods import KubernetesTarget, run_alone_on_pods, run_application_on_pods
from headrace.cli.submission.submission import LocalPlan, load_to_submit, submit_to_session, travelling_code
from headrace.cli.submission.target import require_fitting
from headrace.cli.submission.yarn import YarnTarget, run_alone_on_yarn, run_application_on_yarn
from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.client.models import SubmitRequest
    from headrace.local.pipeline_file import Loaded


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
    allow_drained: AllowDrained = False,
    allow_lost_output: AllowLostOutput = False,
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
    )
    if target is Target.SPARK:
        on_spark = SparkTarget(master, conf=conf, py_files=py_files, archives=both_spellings(archives, old_archive))
        _follow_on_spark(file, set_, origin, on_spark, parallelism=parallelism, as_json=as_json)
        return
    election = election_of(ha, ledger, key_file, host)
    pods = KubernetesTarget(name, namespace, config) if target is Target.KUBERNETES else None
    yarn = YarnTarget(name, config) if target is Target.YARN else None
    if mode is Mode.APPLICATION:
        if pods is not None:
            run_application_on_pods(file, pods, wait=wait, as_json=as_json)
        elif yarn is not None:
            run_application_on_yarn(file, yarn, wait=wait, as_json=as_json)
        else:
            run_application(file, parallelism, election, wait=wait, as_json=as_json)
        return
    if election is not None and mode is Mode.SESSION:
        raise UserError(
            "--ha means nothing to a cluster that runs",
            remedy="--mode per-job makes a cluster for this job; --coordinator URL names one that runs",
        )
    if pods is not None and mode is Mode.SESSION:
        coordinator = pods.running()
    elif yarn is not None and mode is Mode.SESSION:
        coordinator = yarn.running()
    loaded = load_to_submit(file, set_, parallelism)
    plan = LocalPlan(loaded)
    if from_savepoint is not None:
        tell_verdicts(plan.compiled, from_savepoint, origin.renames, allow_dropped_state=allow_dropped_state)
    request = _request(loaded, origin).model_copy(
        update={
            "code": travelling_code(loaded, file, py_files=py_files, archives=both_spellings(archives, old_archive)),
            "claim": claim,
            "take_over": take_over,
            "allow_duplicate": allow_duplicate,
        }
    )
    if mode is Mode.PER_JOB and pods is not None:
        run_alone_on_pods(request, pods, name=plan.compiled.pipeline.name, wait=wait, as_json=as_json)
    elif mode is Mode.PER_JOB and yarn is not None:
        run_alone_on_yarn(request, yarn, name=plan.compiled.pipeline.name, wait=wait, as_json=as_json)
    elif mode is Mode.PER_JOB:
        run_alone(plan.compiled, request, election, wait=wait, as_json=as_json)
    else:
        submit_to_session(request, plan, coordinator, wait=wait, as_json=as_json)


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
    from headrace.client.models import SubmitRequest
    from headrace.client.submission import file_form

    return SubmitRequest(
        pipeline=file_form(loaded.pipeline),
        from_savepoint=None if origin.path is None else absolute(origin.path),
        renames=origin.renames,
        allow_dropped_state=origin.allow_dropped_state,
        allow_drained=origin.allow_drained,
        allow_lost_output=origin.allow_lost_output,
    )
