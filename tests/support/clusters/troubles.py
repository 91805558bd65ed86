"""What a job of `kafka_flow` can get into: each is a context, inside of which the job is in that trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import DOUBLING, Flow, running_flow
from support.clusters.session import Cluster, frozen, kill
from support.clusters.stopping_points import StoppingPoints
from support.processes.running import wait_until

TROUBLE = """
import os, time
from pathlib import Path

FOLDER = Path({folder!r})
healthy = doubled


def doubled(rows):
    for trouble in ("crash", "hang"):
        if (FOLDER / trouble).exists():
            (FOLDER / (trouble + "-met")).touch()
            os._exit(3) if trouble == "crash" else time.sleep(3_600)
    return healthy(rows)
"""

STAY_IN_TROUBLE = ("--set", "restart.poison_after=off")
"""Options of `submit`: a job that crashes would end by itself."""
Trouble = Callable[[Flow, StoppingPoints], AbstractContextManager[None]]


@contextmanager
def flow_for_troubles(cluster: Cluster, broker: EmbeddedBroker, points: StoppingPoints) -> Iterator[Flow]:
    """Runs, and has been exact; at the end it is drained, and exact again."""
    fields = f'points: "{points.folder}"'
    with running_flow(
        cluster,
        broker,
        name="troubled",
        storage=str(cluster.folder / "storage"),
        exactly_once=True,
        sink="stopping_kafka",
        sink_fields=fields,
        interval="300ms",
    ) as flow:
        folder = cluster.folder / "trouble"
        folder.mkdir(exist_ok=True)
        (cluster.folder / "doubling.py").write_text(DOUBLING + TROUBLE.format(folder=str(folder)))
        flow.submit(*STAY_IN_TROUBLE)
        flow.wait_checkpoint()
        flow.settle()
        yield flow
        flow.finish()


@contextmanager
def _function(flow: Flow, kind: str) -> Iterator[None]:
    folder: Path = flow.cluster.folder / "trouble"
    (folder / kind).touch()
    try:
        wait_until((folder / f"{kind}-met").exists, f"the function meets its {kind}")
        yield
    finally:
        for name in (kind, f"{kind}-met"):
            (folder / name).unlink(missing_ok=True)


@contextmanager
def crash_loop(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """A function ends its process, in every attempt."""
    with _function(flow, "crash"):
        yield


@contextmanager
def hanging_function(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """A function never returns."""
    with _function(flow, "hang"):
        yield


@contextmanager
def hanging_sink(_flow: Flow, points: StoppingPoints) -> Iterator[None]:
    """A writer does not flush."""
    with points.held_at("before-flush"):
        yield


@contextmanager
def hanging_commit(_flow: Flow, points: StoppingPoints) -> Iterator[None]:
    """A committer does not commit what a checkpoint decided."""
    with points.held_at("before-commit"):
        yield


@contextmanager
def no_slots(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """The only worker is gone."""
    kill(flow.cluster.worker())
    try:
        wait_until(lambda: flow.cluster.state(flow.job) in {"SCHEDULING", "RESTARTING"}, "its worker is missed")
        yield
    finally:
        flow.cluster.start_again()


@contextmanager
def broker_away(flow: Flow, points: StoppingPoints) -> Iterator[None]:
    """The broker answers nobody, and rows of an epoch are to be committed."""
    assert isinstance(flow.broker, EmbeddedBroker) and flow.broker.pid is not None
    with points.held_at("after-flush"), frozen(flow.broker.pid):
        points.let_go("after-flush")
        yield


@contextmanager
def _away(folder: Path) -> Iterator[None]:
    """A path that leads to itself can neither be read nor made."""
    away = folder.rename(folder.with_name("away"))
    folder.symlink_to(folder)
    try:
        yield
    finally:
        folder.unlink()
        away.rename(folder)


@contextmanager
def storage_away(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """Checkpoint storage takes and gives nothing."""
    with _away(flow.cluster.folder / "storage"):
        yield


@contextmanager
def storage_away_at_start(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """The same for a coordinator that has just started: the job has no driver yet."""
    kill(flow.cluster.coordinator())
    with _away(flow.cluster.folder / "storage" / flow.job / "journal"):
        flow.cluster.start_again()
        yield


@contextmanager
def nothing(_flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """A job that runs well."""
    yield


TROUBLES: Mapping[str, Trouble] = {
    each.__name__: each
    for each in (
        crash_loop,
        hanging_function,
        hanging_sink,
        hanging_commit,
        no_slots,
        broker_away,
        storage_away,
        storage_away_at_start,
        nothing,
    )
}
