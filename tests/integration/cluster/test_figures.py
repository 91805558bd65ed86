"""The figures of a job that runs: in its status, its checkpoints, and the metrics of the coordinator."""

from __future__ import annotations

import json
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.client.discovery import recorded_token
from headrace.client.figure_models import JobFigures
from headrace.coordinator.monitoring.definitions import CHECKPOINT_FAILED, METRICS
from headrace.core.errors import UserError
from headrace.core.settings import Home
from support.clusters.kafka_flow import Flow
from support.clusters.session import Cluster
from support.processes.running import finish, wait_until

pytestmark = pytest.mark.broker

ENDLESS = """\
name: watched
sources:
  numbers:
    generator: {rate: 200, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out:
    from: numbers
    files: {path: watched-out}
    format: json
"""


def metrics(cluster: Cluster) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Name -> its (labels, value)s, as Prometheus reads them."""
    url = json.loads((cluster.home / "cluster" / "cluster.json").read_text())["url"]
    request = urllib.request.Request(
        f"{url}/v1/metrics", headers={"Authorization": f"Bearer {recorded_token(Home(cluster.home))}"}
    )
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_each_metric_is_read_from_a_job_that_runs(cluster: Cluster, flow: Flow) -> None:
    def missing() -> list[str]:
        found = metrics(cluster)
        return [name for name in labels if name not in found]

    # no checkpoint of this job has failed
    labels = {each.name: set(each.labels) for each in METRICS if each is not CHECKPOINT_FAILED}
    wait_until(lambda: missing() == [], "every metric has a value")
    found = metrics(cluster)
    assert CHECKPOINT_FAILED.name not in found
    assert {name: set(samples[0][0]) for name, samples in found.items() if name in labels} == labels

    def total(name: str, **wanted: str) -> float:
        own = [value for has, value in metrics(cluster)[name] if wanted.items() <= has.items()]
        return sum(own)

    wait_until(lambda: total("headrace_node_rows_in_total", job=flow.job, node="events") > 0, "rows of the source")
    wait_until(lambda: total("headrace_node_received_bytes_total", job=flow.job, node="per_key") > 0, "sent rows")
    wait_until(lambda: total("headrace_node_sent_bytes_total", job=flow.job, node="windows") > 0, "written rows")
    wait_until(lambda: total("headrace_node_state_rows", job=flow.job, node="per_key") > 0, "a checkpoint with state")
    positions = [has for has, _ in found["headrace_partition_position"] if has["job"] == flow.job]
    assert len({(has["topic"], has["partition"]) for has in positions}) == 4
    assert total("headrace_workers") == 2 and total("headrace_slots") == 4


def test_status_has_the_figures_of_nodes_subtasks_and_partitions(cluster: Cluster, flow: Flow) -> None:
    def is_complete() -> bool:
        status = cluster.client.status(flow.job)
        nodes = {node.node: node for node in status.nodes}
        return (
            status.rows_in_per_s > 0
            and bool(status.transactions)
            and {"events", "per_key"} <= nodes.keys()
            and bool(nodes["per_key"].state_bytes)
            and nodes["events"].watermark_delay_ms is not None
            and len(nodes["events"].partitions) == 4
            and all(each.position > 0 for each in nodes["events"].partitions)
        )

    wait_until(is_complete, "figures of everything")
    status = cluster.client.status(flow.job)
    nodes = {node.node: node for node in status.nodes}
    events, windows = nodes["events"], nodes["per_key"]

    assert events.bytes_in and events.bytes_out and windows.bytes_in
    assert sum(each.rows_in for each in events.subtasks) <= events.rows_in
    assert {each.subtask for each in events.partitions} == {each.subtask for each in events.subtasks}
    assert {each.topic for each in events.partitions} == set(flow.inputs)
    assert all(each.busy_ms + each.idle_ms + each.backpressured_ms > 0 for each in windows.subtasks)
    assert all(0.999 <= each.busy + each.idle + each.backpressured <= 1.001 for each in windows.subtasks)
    assert {each.sink for each in status.transactions} <= {"windows", "kept_rows", "late_rows", "events.bad"}
    text = cluster.headrace("status", flow.job, "--wide", "--partitions").out
    assert "rows/s" in text and "POSITION" in text and "BYTES IN" in text

    rows_before = events.rows_in
    wait_until(
        lambda: next(n for n in cluster.client.status(flow.job).nodes if n.node == "events").rows_in > rows_before,
        "more rows",
    )


def test_all_jobs_have_figures_in_one_document_and_a_node_its_inputs(cluster: Cluster, flow: Flow) -> None:
    def figures() -> JobFigures:
        return next(each for each in cluster.client.figures() if each.job_id == flow.job)

    wait_until(lambda: figures().rows_in_per_s > 0 and figures().watermark_delay_ms is not None, "figures of the job")
    wait_until(lambda: figures().checkpoint_ms is not None and len(figures().partitions) == 4, "lags and a checkpoint")
    found = figures()
    assert {each.topic for each in found.partitions} == set(flow.inputs)
    assert found.checkpoint_age_ms is not None and found.checkpoint_bytes
    assert (found.state, found.parallelism, found.failure) == ("RUNNING", 2, None)

    nodes = {node.node: node for node in cluster.client.status_of_nodes(flow.job, "events").nodes}
    assert nodes["events"].inputs == ()
    assert nodes["per_key"].inputs == ("events",)
    assert nodes["doubled"].inputs == ("kept",)
    assert nodes["late_rows"].inputs == ("per_key",)
    assert len(nodes["events"].subtasks) == 2 and len(nodes["events"].partitions) == 4
    assert not nodes["per_key"].subtasks


def test_workers_report_what_they_and_their_slots_use(cluster: Cluster, flow: Flow) -> None:
    def reported() -> bool:
        return all(each.memory_bytes and each.cpu for each in cluster.client.cluster().workers)

    wait_until(reported, "the load of each worker")
    # a supervisor and its slots: each is an interpreter with the engine
    assert all((each.memory_bytes or 0) > 100 << 20 for each in cluster.client.cluster().workers)


def test_the_stacks_of_a_worker_are_those_of_its_slots_too(cluster: Cluster, flow: Flow) -> None:
    busy = cluster.wait_busy_slots(flow.job)
    texts = [cluster.client.stacks(each.worker) for each in cluster.client.cluster().workers]
    assert all("== supervisor" in text and "supervisor.py" in text for text in texts)
    whole = "\n".join(texts)
    for pid in busy:
        own = whole.partition(f"pid {pid}\n")[2].partition("== ")[0]
        assert "Thread 0x" in own and "subtask" in own, own
    assert cluster.state(flow.job) == "RUNNING"
    assert set(busy) <= set(cluster.slots()), "no slot has ended"
    with pytest.raises(UserError, match="no worker 'nobody'"):
        cluster.client.stacks("nobody")


def test_the_logs_of_a_worker_are_those_of_its_slots_too(cluster: Cluster, flow: Flow) -> None:
    busy = cluster.wait_busy_slots(flow.job)
    workers = [each.worker for each in cluster.client.cluster().workers]
    for worker in workers:
        cluster.client.stacks(worker)  # slots write theirs to their logs
    texts = [cluster.client.worker_logs(worker) for worker in workers]
    assert all("== worker, pid " in text and " is up (pid " in text for text in texts)
    whole = "\n".join(texts)
    for pid in busy:
        own = whole.partition(f", pid {pid}\n")[2].partition("== ")[0]
        assert "Thread 0x" in own, own
    with pytest.raises(UserError, match="no worker 'nobody'"):
        cluster.client.worker_logs("nobody")


def test_checkpoints_have_their_slowest_subtasks(cluster: Cluster, flow: Flow) -> None:
    def measured() -> bool:
        return any(each.slowest and each.status == "committed" for each in cluster.client.checkpoints(flow.job))

    wait_until(measured, "a checkpoint of this coordinator")
    newest = next(each for each in cluster.client.checkpoints(flow.job) if each.slowest and each.status == "committed")
    took = [each.took_ms for each in newest.slowest]
    assert took == sorted(took, reverse=True)
    assert newest.slots is not None and newest.slots_acked == newest.slots
    assert newest.path and newest.duration_ms is not None and newest.bytes_written is not None
    assert {each.worker for each in newest.slowest} <= {each.worker for each in cluster.client.cluster().workers}
    table = cluster.headrace("checkpoints", flow.job).out
    assert "SLOWEST" in table and "ALIGNED" in table


def test_status_watches_a_job_to_its_end(cluster: Cluster) -> None:
    path = cluster.folder / "watched.yaml"
    path.write_text(ENDLESS)
    job = cluster.headrace("submit", str(path), "--json").json["job_id"]
    watching = cluster.begin("status", job, "--watch", "--every", "50ms", "--json")
    assert watching.stdout is not None
    looks = [json.loads(watching.stdout.readline()) for _ in range(3)]
    cluster.headrace("cancel", job)
    last = finish(watching)

    assert {each["job_id"] for each in looks} == {job}
    assert last.code == 0, last.err
    assert json.loads(last.out.splitlines()[-1])["state"] == "CANCELED"
