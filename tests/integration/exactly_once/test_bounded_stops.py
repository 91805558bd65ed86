"""A stop ends within its bound whatever its job does, and the job that goes on from there loses and repeats nothing."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import DOUBLING, Flow
from support.clusters.session import Cluster
from support.clusters.stopping_points import StoppingPoints
from support.clusters.troubles import STAY_IN_TROUBLE, TROUBLES, flow_for_troubles
from support.kafka.broker import running_broker
from support.patience import BROKER_SESSION
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

WITHIN_S = 10
SLACK_S = 10
"""For a command that starts and asks, on a machine that is busy."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """One that stands still for a while."""
    with running_broker(tmp_path_factory.mktemp("b"), settings=BROKER_SESSION) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: Cluster, broker: EmbeddedBroker, points: StoppingPoints) -> Iterator[Flow]:
    """It runs, and is exact; so again after every test."""
    with flow_for_troubles(cluster, broker, points) as running:
        yield running


def _stop_and_go_on(flow: Flow, points: StoppingPoints, name: str, *options: str, pause_s: float = 0.0) -> str:
    """Stops the job amid the trouble, goes on from where it ended, and returns what its user was told."""
    with TROUBLES[name](flow, points):
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
    flow.go_on(path, *STAY_IN_TROUBLE, *(["--take-over"] if "--take-over" in stopped.err else []))
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


def test_a_job_that_crashes_is_upgraded(cluster: Cluster, flow: Flow, points: StoppingPoints) -> None:
    """The new pipeline does not crash."""
    function = cluster.folder / "doubling.py"
    text = function.read_text()
    with TROUBLES["crash_loop"](flow, points):
        function.write_text(DOUBLING)
        upgraded = cluster.headrace("upgrade", flow.job, flow.file(), "--json")
        assert upgraded.code == 0, upgraded.err
        flow.job = upgraded.json["job_id"]
        flow.wait_checkpoint()
        flow.settle()
    function.write_text(text)
    flow.go_on(flow.stop(), *STAY_IN_TROUBLE)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_stops_at_random_moments(flow: Flow, points: StoppingPoints, stops: int, seed: int) -> None:
    """`make test-full` has 50 for each seed."""
    choices = random.Random(seed)
    for _ in range(stops):
        options = ("--savepoint", "saved") if choices.random() < 0.3 else ()
        _stop_and_go_on(flow, points, choices.choice(list(TROUBLES)), *options, pause_s=choices.uniform(0, 3))
