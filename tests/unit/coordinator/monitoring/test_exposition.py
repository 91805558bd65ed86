"""What a monitoring system reads of a cluster and its running jobs."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from headrace.client.models import (
    CheckpointInfo,
    CheckpointSubtask,
    JobStatus,
    NodeStatus,
    PartitionState,
    StateOfNode,
    StatePlaces,
    SubtaskState,
    TransactionState,
)
from headrace.coordinator.monitoring.definitions import METRICS, Subject
from headrace.coordinator.monitoring.exposition import metrics_text
from headrace.coordinator.monitoring.values import ClusterValues, JobValues
from headrace.core.signals import TIME_MAX


def read(text: str) -> dict[tuple[str, ...], float]:
    """(name, values of the labels in the order of their names) -> value."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_jobs_as_prometheus_reads_them() -> None:
    alarming = JobStatus(
        job_id="a1",
        name="delays",
        state="RUNNING",
        attempt=4,
        parallelism=1,
        restarts=3,
        alarm="look",
        running_ms=1_500,
    )
    new = JobStatus(job_id="b2", name="new", state="CREATED", attempt=0, parallelism=1)
    values = read(metrics_text([JobValues(alarming, 12.5, completed=7, failed=2), JobValues(new)]))

    assert values[("headrace_job_alarm", "a1", "delays")] == 1.0
    assert values[("headrace_job_alarm", "b2", "new")] == 0.0
    assert values[("headrace_job_running", "a1", "delays")] == 1.0
    assert values[("headrace_job_running", "b2", "new")] == 0.0
    assert values[("headrace_job_restarts_total", "a1", "delays")] == 3.0
    assert values[("headrace_job_running_seconds", "a1", "delays")] == 1.5
    assert values[("headrace_job_checkpoint_age_seconds", "a1", "delays")] == 12.5
    assert ("headrace_job_checkpoint_age_seconds", "b2", "new") not in values
    assert values[("headrace_job_checkpoints_total", "a1", "delays", "completed")] == 7.0
    assert values[("headrace_job_checkpoints_total", "a1", "delays", "failed")] == 2.0


def full_job() -> JobValues:
    """A job for which everything is known."""
    subtask = SubtaskState(
        subtask=1,
        watermark=5_000,
        watermark_delay_ms=2_500,
        rows_queued=3,
        rows_in=10,
        rows_out=9,
        late=1,
        bad=2,
        bytes_in=100,
        bytes_out=90,
        busy_ms=600,
        idle_ms=300,
        backpressured_ms=100,
        state_bytes=70,
        state_rows=7,
    )
    partition = PartitionState(
        topic="in", partition=4, subtask=1, position=40, lag=6, watermark=4_000, watermark_delay_ms=3_500, idle=True
    )
    state = StateOfNode(state="groups", memory_bytes=10, disk_bytes=20, storage_bytes=30)
    nodes = (
        NodeStatus(node="s", kind="source", parallelism=2, task="t", subtasks=(subtask,), partitions=(partition,)),
        NodeStatus(node="k", kind="sink", parallelism=2, task="t", subtasks=(subtask,), states=(state,)),
    )
    status = JobStatus(
        job_id="j",
        name="n",
        state="RUNNING",
        attempt=1,
        parallelism=2,
        nodes=nodes,
        transactions=(TransactionState(sink="k", subtask=1, name="x", age_ms=4_000),),
        state_places=StatePlaces(memory_bytes=10, disk_bytes=20, storage_bytes=30),
        checkpoint_complete=CheckpointInfo(
            epoch=3,
            attempt=1,
            status="committed",
            duration_ms=250,
            bytes=1_000,
            bytes_written=400,
            aligned_ms=20,
            slowest=(CheckpointSubtask(task="t", subtask=1, worker="w", took_ms=200),),
        ),
        checkpoint_running=CheckpointInfo(epoch=5, attempt=1, status="in-progress", duration_ms=500),
        checkpoint_failed=CheckpointInfo(epoch=4, attempt=1, status="failed", duration_ms=9_000),
    )
    return JobValues(status, 1.0, completed=1)


def test_every_metric_has_a_value_where_everything_is_known() -> None:
    values = read(metrics_text([full_job()], ClusterValues(2, 8, 5)))

    assert {key[0] for key in values} == {each.name for each in METRICS}
    assert values[("headrace_slots_free",)] == 5
    places = {key[-2]: value for key, value in values.items() if key[0] == "headrace_state_bytes"}
    assert places == {"memory": 10, "disk": 20, "storage": 30}, list(values)
    assert values[("headrace_node_sent_bytes_total", "j", "n", "k", "1")] == 90
    assert values[("headrace_task_busy_seconds_total", "j", "n", "1", "t")] == 0.6
    assert values[("headrace_partition_lag_messages", "j", "n", "s", "4", "in")] == 6
    assert values[("headrace_job_transaction_age_seconds", "j", "n")] == 4.0
    assert values[("headrace_job_checkpoint_duration_seconds", "j", "n")] == 0.25
    assert values[("headrace_job_checkpoint_slowest_subtask_seconds", "j", "n", "1", "t")] == 0.2
    assert values[("headrace_job_checkpoint_running_seconds", "j", "n")] == 0.5
    assert values[("headrace_job_checkpoint_failed_seconds", "j", "n")] == 9.0


def test_a_task_with_several_nodes_has_its_times_once() -> None:
    text = metrics_text([full_job()])

    assert text.count("\nheadrace_task_busy_seconds_total{") == 1
    assert text.count("\nheadrace_node_rows_in_total{") == 2


def test_time_at_its_end_is_no_value() -> None:
    ended = SubtaskState(subtask=0, watermark=TIME_MAX)
    node = NodeStatus(node="s", kind="source", parallelism=1, task="t", subtasks=(ended,))
    status = JobStatus(job_id="j", name="n", state="RUNNING", attempt=1, parallelism=1, nodes=(node,))

    assert "headrace_task_watermark_seconds{" not in metrics_text([JobValues(status)])


def test_without_jobs_the_metrics_are_described_all_the_same() -> None:
    text = metrics_text([], ClusterValues(0, 0, 0))

    assert [each.name for each in METRICS if f"# HELP {each.name} " not in text] == []


def test_a_run_has_no_cluster() -> None:
    text = metrics_text([])

    assert [each.name for each in METRICS if each.subject is Subject.CLUSTER and each.name in text] == []
