"""`headrace replay`: runs a pipeline over a range of its sources, on Spark."""

from __future__ import annotations

from headrace.cli.arguments import (
    AcceptNewTopic,
    AllowDrained,
    AllowDroppedState,
    AllowLostOutput,
    File,
    Json,
    MaxParallelism,
    OldFinal,
    Rename,
    Set,
    overrides_of,
)
from headrace.cli.errors import reporting_errors
from headrace.cli.origin_options import OriginOptions
from headrace.cli.spark.replay_options import (
    Against,
    AgainstFrom,
    AgainstSink,
    AgainstUntil,
    AllowRepeatedOutput,
    Comparison,
    Final,
    Floors,
    FollowFlag,
    From,
    FromSavepoint,
    GiveUp,
    History,
    Increments,
    Parallelism,
    SavepointFolder,
    SparkTarget,
    TriggerInterval,
    Until,
    work_of,
)
from headrace.cli.spark.settings import (
    AllowLocalStorage,
    BackEndName,
    Conf,
    DeployMode,
    Master,
    SparkArchives,
    SparkPyFiles,
)


@reporting_errors()
def replay(
    file: File,
    from_: From = None,
    until: Until = None,
    savepoint: SavepointFolder = None,
    final: Final = False,
    old_final: OldFinal = False,
    from_savepoint: FromSavepoint = None,
    floors: Floors = None,
    parallelism: Parallelism = None,
    follow: FollowFlag = False,
    trigger_interval: TriggerInterval = None,
    increments: Increments = None,
    against: Against = None,
    sink: AgainstSink = None,
    against_from: AgainstFrom = None,
    against_until: AgainstUntil = None,
    master: Master = None,
    deploy_mode: DeployMode = "client",
    conf: Conf = None,
    py_files: SparkPyFiles = None,
    archives: SparkArchives = None,
    back_end: BackEndName = "rdd",
    allow_local_storage: AllowLocalStorage = False,
    set_: Set = None,
    allow_dropped_state: AllowDroppedState = False,
    allow_drained: AllowDrained = False,
    allow_lost_output: AllowLostOutput = False,
    accept_new_topic: AcceptNewTopic = None,
    allow_repeated_output: AllowRepeatedOutput = False,
    give_up: GiveUp = False,
    rename: Rename = None,
    max_parallelism: MaxParallelism = None,
    as_json: Json = False,
) -> None:
    """Run a pipeline over a range of its sources on Spark; its results reach the sinks once."""
    from headrace.cli.spark.replay_command import ReplayCommand

    comparison = None if against is None else Comparison(against, sink, against_from, against_until)
    command = ReplayCommand(
        file=file,
        set_=overrides_of(set_, max_parallelism),
        history=History(from_, until, savepoint, final or old_final, floors),
        origin=OriginOptions(
            path=from_savepoint,
            rename=rename,
            allow_dropped_state=allow_dropped_state,
            allow_drained=allow_drained,
            allow_lost_output=allow_lost_output,
            accept_new_topic=accept_new_topic,
            max_parallelism=max_parallelism,
        ),
        work=work_of(comparison, follow=follow, interval=trigger_interval, increments_max=increments),
        target=SparkTarget(master, deploy_mode, conf, py_files, archives, back_end, allow_local_storage),
        parallelism=parallelism,
        allow_repeated_output=allow_repeated_output,
        as_json=as_json,
    )
    if give_up:
        command.give_up()
    else:
        command.run()
