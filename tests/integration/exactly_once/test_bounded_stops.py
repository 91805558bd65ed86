"""A stop ends within its bound whatever its job does, and the job that goes on from there loses and repeats nothing."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import DOUBLING, Flow, running_flow
from support.clusters.session import Cluster, frozen, kill
from support.clusters.stopping_points import StoppingPoints
from support.kafka.broker import running_broker
from support.patience import BROKER_SESSION
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

SET = ("--set", "restart.poison_after=off")
"""A job that crashes would end by itself."""
WITHIN_S = 10
SLACK_S = 10
"""For a command that starts and asks, on a machine that is busy."""

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


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One that stands still for a while."""
    with running_broker(tmp_path_factory.mktemp("b"), settings=BROKER_SESSION) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: Cluster, broker: EmbeddedBroker, points: StoppingPoints) -> Iterator[Flow]:
    """It runs, and has been exact; so again after every test. Its storage and its function can be put into trouble."""
    storage = cluster.folder / "storage"
    fields = f'points: "{points.folder}"'
    with running_flow(
        cluster,
        broker,
        name="bounded",
        storage=str(storage),
        exactly_once=True,
        sink="stopping_kafka",
        sink_fields=fields,
        interval="300ms",
    ) as running:
        (cluster.folder / "trouble").mkdir()
        text = DOUBLING + TROUBLE.format(folder=str(cluster.folder / "trouble"))
        (cluster.folder / "doubling.py").write_text(text)
        running.submit(*SET)
        running.wait_checkpoint()
        running.settle()
        yield running
        running.finish()


Trouble = Callable[[Flow, StoppingPoints], Iterator[None]]


def _function(flow: Flow, kind: str) -> Iterator[None]:
    folder: Path = flow.cluster.folder / "trouble"
    (folder / kind).touch()
    try:
        wait_until((folder / f"{kind}-met").exists, f"the function meets its {kind}")
        yield
    finally:
        for name in (kind, f"{kind}-met"):
            (folder / name).unlink(missing_ok=True)


def crash_loop(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """A function ends its process, in every attempt."""
    yield from _function(flow, "crash")


def hanging_function(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """A function never returns."""
    yield from _function(flow, "hang")


def hanging_sink(_flow: Flow, points: StoppingPoints) -> Iterator[None]:
    """A writer does not flush."""
    with points.held_at("before-flush"):
        yield


def hanging_commit(_flow: Flow, points: StoppingPoints) -> Iterator[None]:
    """A committer does not commit what a checkpoint decided."""
    with points.held_at("before-commit"):
        yield


def no_slots(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """The only worker is gone."""
    kill(flow.cluster.worker())
    try:
        wait_until(lambda: flow.cluster.state(flow.job) in {"SCHEDULING", "RESTARTING"}, "its worker is missed")
        yield
    finally:
        flow.cluster.start_again()


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


def storage_away(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """Checkpoint storage takes and gives nothing."""
    with _away(flow.cluster.folder / "storage"):
        yield


def storage_away_at_start(flow: Flow, _points: StoppingPoints) -> Iterator[None]:
    """The same for a coordinator that has just started: the job has no driver yet."""
    kill(flow.cluster.coordinator())
    with _away(flow.cluster.folder / "storage" / flow.job / "journal"):
        flow.cluster.start_again()
        yield


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


def _stop_and_go_on(flow: Flow, points: StoppingPoints, name: str, *options: str, pause_s: float = 0.0) -> str:
    """Stops the job amid the trouble, goes on from where it ended, and returns what its user was told."""
    with contextmanager(TROUBLES[name])(flow, points):
        time.sleep(pause_s)
        begun_s = time.monotonic()
        stopped = flow.cluster.headrace("stop", flow.job, "--within", f"{WITHIN_S}s", "--json", *options)
        elapsed_s = time.monotonic() - begun_s
        assert stopped.code == 0, f"{name}: {stopped.err}"
        assert elapsed_s < WITHIN_S + SLACK_S, f"{name}: {elapsed_s:.1f} s"
        assert flow.cluster.state(flow.job) in {"FINISHED", "CANCELED"}
    path = json.loads(stopped.out)["path"]
    if "headrace transactions commit" in stopped.err:
        wait_until(lambda: flow.cluster.headrace("transactions", "commit", flow.job, "--yes").code == 0, "committed")
    flow.go_on(path, *SET, *(["--take-over"] if "--take-over" in stopped.err else []))
    return stopped.err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("crash_loop", "ended at checkpoint"),
        ("hanging_sink", "no other one was complete within 10s"),
        ("no_slots", "ended at checkpoint"),
        pytest.param("hanging_function", "no other one was complete within 10s", marks=pytest.mark.full),
        pytest.param("hanging_commit", "headrace transactions commit", marks=pytest.mark.full),
        pytest.param("broker_away", "no other one was complete within 10s", marks=pytest.mark.full),
        pytest.param("storage_away", "--take-over", marks=pytest.mark.full),
        pytest.param("storage_away_at_start", "--take-over", marks=pytest.mark.full),
    ],
)
def test_a_stop_ends_at_the_last_complete_checkpoint(
    flow: Flow, points: StoppingPoints, name: str, reason: str
) -> None:
    told = _stop_and_go_on(flow, points, name)
    assert "ended" in told and reason in told
    assert "go on with: headrace submit FILE --from-savepoint " in told


def test_a_stop_with_a_savepoint_ends_within_its_bound(flow: Flow, points: StoppingPoints) -> None:
    """It waits for an attempt that could write it, and no longer."""
    told = _stop_and_go_on(flow, points, "no_slots", "--savepoint", "saved")
    assert "no other one was complete within 10s" in told


@pytest.mark.full
def test_stops_at_random_moments(flow: Flow, points: StoppingPoints, stops: int) -> None:
    """`pytest --stops 200` is what a release runs."""
    choices = random.Random(stops)
    for _ in range(stops):
        options = ("--savepoint", "saved") if choices.random() < 0.3 else ()
        _stop_and_go_on(flow, points, choices.choice(list(TROUBLES)), *options, pause_s=choices.uniform(0, 3))
