"""Stopped and resumed: from savepoints and checkpoints, rescaled, as another pipeline, by `run`."""

from __future__ import annotations

import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster, wait_gone
from support.kafka.open_transactions import require_none_left
from support.processes.running import finish, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

BOUNDED = ("--set", "sources.events.kafka.stop=latest")


@pytest.mark.full
def test_stop_with_a_savepoint_and_go_on_with_another_parallelism(cluster: Cluster, flow: Flow) -> None:
    path = flow.stop("--savepoint", "saved")

    assert (Path(path) / "manifest.json").is_file()
    flow.go_on(path, parallelism=3)
    assert cluster.client.status(flow.job).parallelism == 3


def test_a_savepoint_of_a_running_job_that_was_moved(cluster: Cluster, flow: Flow) -> None:
    """The job goes on from it with fewer subtasks."""
    # what came between the savepoint and the stop would be written again: whoever goes back wants that
    with flow.feed.paused():
        flow.wait_exact()
        done = cluster.headrace("savepoint", flow.job, "saved")
        assert done.code == 0, done.err
        cluster.wait_state(flow.job, "RUNNING")
        looked = cluster.headrace("state", "read", flow.job, "--node", "per_key", "--fresh", "--json")
        assert looked.code == 0, looked.err
        assert {"window_start", "window_end"} < set(looked.json["columns"]), "as the step's output has them"
        assert looked.json["rows_total"] > 0
        flow.stop()

    moved = cluster.folder / "moved"
    shutil.move(done.out.strip(), moved)

    flow.go_on(str(moved), parallelism=1)
    assert cluster.client.status(flow.job).parallelism == 1


@pytest.mark.full
def test_rescaled_while_rows_come(cluster: Cluster, broker: EmbeddedBroker, flow: Flow) -> None:
    for parallelism in (3, 1):
        done = cluster.headrace("rescale", flow.job, "--parallelism", str(parallelism), "--json")

        assert done.code == 0, done.err
        assert done.json == {"job_id": flow.job, "state": "RUNNING", "parallelism": parallelism}
        flow.wait_checkpoint()
        require_none_left(broker, flow)
        flow.settle()
        wait_until(partial(_runs_on, flow, parallelism), f"{parallelism} slots run it")


def test_cancel_keeps_the_checkpoints(cluster: Cluster, flow: Flow) -> None:
    flow.wait_checkpoint()
    done = cluster.headrace("cancel", flow.job, "--json")
    assert (done.code, done.json) == (0, {"job_id": flow.job, "state": "CANCELED"})

    last = cluster.client.status(flow.job).checkpoint
    assert last is not None
    flow.go_on(last.path)


def test_upgrade_with_a_renamed_and_an_added_node(cluster: Cluster, flow: Flow) -> None:
    file = flow.file(window="by_key", added="positive")

    refused = cluster.headrace("upgrade", flow.job, file)
    assert refused.code == 2, refused.err
    cluster.wait_state(flow.job, "RUNNING")

    done = cluster.headrace("upgrade", flow.job, file, "--rename", "per_key=by_key", "--json")
    assert done.code == 0, done.err
    assert done.json["old_job_id"] == flow.job
    flow.job = done.json["job_id"]
    flow.wait_checkpoint()
    flow.settle()
    assert {"by_key", "positive"} <= {node.node for node in cluster.client.status(flow.job).nodes}

    path = flow.stop("--savepoint", "saved")
    _require_lost_state_refused(cluster, flow, path)
    flow.go_on(path, "--rename", "by_key=per_key")


def _require_lost_state_refused(cluster: Cluster, flow: Flow, path: str) -> None:
    """The savepoint has a node that the pipeline does not have: no job of it begins."""
    jobs = cluster.client.jobs()

    done = cluster.headrace("submit", flow.file(), "--from-savepoint", path)

    assert done.code == 2
    assert "by_key" in done.err and "--allow-dropped-state" in done.err
    assert cluster.client.jobs() == jobs


def test_runs_take_over_are_killed_and_resumed_and_hand_back(cluster: Cluster, flow: Flow) -> None:
    """A bounded run, which leaves windows open in its savepoint; then an endless one; then a job again."""
    path = flow.stop("--savepoint", "saved")

    done = cluster.headrace("run", flow.file(), "--from-savepoint", path, "--savepoint", "saved", *BOUNDED, "--json")

    assert done.code == 0, done.err
    assert done.json["state"] == "FINISHED"
    running = cluster.begin("run", flow.file(), "--from-savepoint", done.json["savepoint"])
    own = _slots_of_a_run(cluster, running.pid)
    flow.settle()
    _wait_new_record(cluster)
    running.kill()
    finish(running)
    wait_gone(*own)

    resumed = cluster.begin("run", flow.file(), "--resume", "--savepoint", "saved", "--json")
    _slots_of_a_run(cluster, resumed.pid)
    _wait_new_record(cluster)
    flow.settle()
    resumed.send_signal(signal.SIGINT)
    ended = finish(resumed)

    assert ended.json["state"] == "CANCELED", ended.err
    flow.go_on(ended.json["savepoint"])


def _runs_on(flow: Flow, slots: int) -> bool:
    return len(flow.slots()) == slots


def _slots_of_a_run(cluster: Cluster, run: int) -> list[int]:
    wait_until(lambda: bool(cluster.slots(run)), "the run has slots")
    return cluster.slots(run)


def _wait_new_record(cluster: Cluster) -> None:
    """Only the run writes: every job has ended."""

    def records() -> set[Path]:
        return set((cluster.home / "checkpoints").glob("*/journal/*.json"))

    before = records()
    wait_until(lambda: records() != before, "the run writes a record")
