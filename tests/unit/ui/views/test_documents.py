"""What pages show of the documents of REST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.client.cluster_models import ClusterInfo, ExpectedWorkerInfo, ProvisioningInfo, WorkerInfo
from headrace.client.figure_models import Bottleneck, JobFigures
from headrace.client.models import (
    AuditReport,
    CheckpointInfo,
    CheckpointSubtask,
    DataWarningState,
    ExceptionInfo,
    JobStatus,
    NodeStatus,
    PartitionState,
    SinkAudit,
    StateOfNode,
    SubtaskState,
    TransactionState,
    WaitingState,
    moment,
)
from headrace.client.output_models import DeadLetterInfo, DeadLetterList, TransactionInfo, TransactionList
from headrace.client.state_models import StateRows
from headrace.core.errors import Domain
from headrace.ui.views import job_view
from headrace.ui.views.cluster_view import cluster_view, expected_rows, worker_facts, worker_row
from headrace.ui.views.formats import NONE
from headrace.ui.views.job_view import (
    SUBTASKS_SHOWN,
    busiest_node,
    exception_views,
    job_head,
    node_facts,
    partition_rows,
    subtask_rows,
    verdict_text,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def node(name: str, *, busy: float = 0.0, backpressured: float = 0.0) -> NodeStatus:
    return NodeStatus(node=name, kind="filter", parallelism=2, busy=busy, backpressured=backpressured)


def status(**fields: object) -> JobStatus:
    whole = {"job_id": "a", "name": "n", "state": "RUNNING", "attempt": 1, "parallelism": 2} | fields
    return JobStatus.model_validate(whole)


def test_the_overview_counts_jobs_and_shows_alarms_first() -> None:
    jobs = (
        JobFigures(
            job_id="a", name="one", state="RUNNING", started_at=NOW - timedelta(hours=2), rows_in_per_s=1_000, lag=12,
            checkpoint_age_ms=3_000, alarm="no checkpoint for 10 min",
        ),
        JobFigures(
            job_id="b", name="two", state="FAILED",
            started_at=NOW - timedelta(days=1), ended_at=NOW - timedelta(hours=23),
        ),
    )  # fmt: skip
    trouble = ProvisioningInfo(
        slots_max=8, trouble="no quota", expected=(ExpectedWorkerInfo(worker="w2", phase="pending"),)
    )
    cluster = ClusterInfo(cluster_id="c", version="1", slots=8, slots_free=6, provisioning=trouble)
    view = cluster_view(cluster, jobs, NOW)
    assert dict(view.figures) == {
        "Running": "1", "Failed": "1", "Slots free": "6 of 8", "Rows/s in": "1 k", "Workers": "0"
    }  # fmt: skip
    assert view.alarms == (("a", "one: no checkpoint for 10 min"), ("", "workers: no quota"))
    running, failed = view.jobs
    assert (running["since"], running["lag"], running["checkpoint"]) == ("2 h", "12", "3 s ago")
    assert (failed["since"], failed["rate"], failed["restarts"]) == ("1 h", NONE, NONE)
    assert expected_rows(cluster) == ({"worker": "w2", "phase": "pending", "reason": NONE},)
    assert dict(cluster_view(None, (), NOW).figures)["Slots free"] == NONE


def test_a_worker_whose_load_is_not_reported() -> None:
    worker = WorkerInfo(worker="w", host="h", pid=1, slots=4, slots_free=1, version="1")
    assert [worker_row(worker)[key] for key in ("slots", "cpu", "memory")] == ["3 of 4", NONE, NONE]
    loaded = worker.model_copy(update={"cpu": 1.234, "memory_bytes": 2 * 1024**3})
    assert [worker_row(loaded)[key] for key in ("cpu", "memory")] == ["1.23", "2 GB"]
    cluster = ClusterInfo(cluster_id="c", version="1", workers=(loaded,))
    assert ("Memory", "2 GB") in worker_facts(cluster, "w")
    assert worker_facts(cluster, "gone") == (("State", "not registered"),)
    assert worker_facts(None, "w") == ()


def test_the_head_of_a_job_names_what_is_wrong() -> None:
    head = job_head(status(failure="it broke", alarm="look", message="waits for slots"))
    assert head.notes == (("alarm", "look"), ("failure", "it broke"), ("message", "waits for slots"))
    assert not head.has_ended
    assert job_head(status(state="CANCELED")).has_ended


def test_the_head_of_a_job_warns_of_its_data() -> None:
    warning = DataWarningState(node="a", kind="null-column", text="column x is NULL", since=moment(0))
    assert job_head(status(warnings=(warning,))).notes == (("warning", "column x is NULL"),)


def test_the_head_of_a_job_says_what_time_waits_for_unless_a_warning_does() -> None:
    waiting = WaitingState(node="a", on="input 1 of named: the next row of source s", since=moment(0))
    stands = DataWarningState(node="a", kind="standing-time", text="a: event time stands still", since=moment(0))
    note = ("waiting", "a waits for input 1 of named: the next row of source s")
    assert job_head(status(waiting=(waiting,))).notes == (note,)
    assert job_head(status(waiting=(waiting,), warnings=(stands,))).notes == (("warning", stands.text),)


def test_the_busiest_node_comes_first() -> None:
    assert busiest_node(status(nodes=(node("a", backpressured=0.6), node("b", busy=0.9)))) == "b"
    assert busiest_node(status()) is None


def test_a_verdict_has_its_evidence_and_remedy() -> None:
    found = Bottleneck(
        job_id="j", name="n", kind="slow-sink", verdict="sink s is slow", evidence=("busy 90 %",), remedy="more of it"
    )
    assert verdict_text(found) == "sink s is slow\nbusy 90 %\nRemedy: more of it"
    assert verdict_text(found.model_copy(update={"remedy": None})) == "sink s is slow\nbusy 90 %"
    assert verdict_text(found.model_copy(update={"kind": "too-early"})) == ""


def test_subtasks_come_busiest_first_and_are_bounded() -> None:
    subtasks = tuple(SubtaskState(subtask=number, busy=number / 100) for number in range(40))
    rows = subtask_rows(node("a").model_copy(update={"subtasks": subtasks}))
    assert [row["subtask"] for row in rows] == list(range(39, 39 - SUBTASKS_SHOWN, -1))
    assert rows[0]["worker"] == NONE
    assert dict(node_facts(node("a")))["Watermark"] == NONE


def test_a_subtask_has_its_bytes_rows_and_state() -> None:
    inside = SubtaskState(subtask=0, late=3, bad=1)
    at_the_edge = SubtaskState(subtask=1, bytes_in=2_048, bytes_out=10, state_bytes=5_120)
    first, second = subtask_rows(node("a").model_copy(update={"subtasks": (inside, at_the_edge)}))
    assert [first[key] for key in ("bytes", "late", "bad", "state")] == [NONE, "3", "1", NONE]
    assert [second[key] for key in ("bytes", "late", "bad", "state")] == ["2 kB", "0", "0", "5 kB"]


def test_partitions_come_furthest_behind_first() -> None:
    partitions = (
        PartitionState(topic="t", partition=0, subtask=0, position=5, lag=None, idle=True),
        PartitionState(topic="t", partition=1, subtask=0, position=5, lag=1_200, watermark_delay_ms=2_000),
    )
    rows = partition_rows(node("a").model_copy(update={"partitions": partitions}))
    assert [(row["partition"], row["lag"], row["delay"]) for row in rows] == [
        ("t-1", "1,200", "2 s"),
        ("t-0", NONE, "idle"),
    ]


def test_checkpoints_become_rows_and_lines() -> None:
    slowest = (
        CheckpointSubtask(task="hourly", subtask=3, worker="w", took_ms=900, aligned_ms=40, bytes=2_048),
        CheckpointSubtask(task="hourly", subtask=1, worker="w", took_ms=20),
    )
    checkpoints = (
        CheckpointInfo(epoch=4, attempt=1, status="in-progress", started_at=NOW),
        CheckpointInfo(epoch=3, attempt=1, status="failed", failure="the disk is full", started_at=NOW),
        CheckpointInfo(
            epoch=2, attempt=1, status="committed", completed_at=moment(2_000), duration_ms=1_500, bytes=4_096,
            bytes_written=1_024, aligned_ms=40, slowest=slowest, path="/c/2",
        ),
        CheckpointInfo(
            epoch=1, attempt=1, status="completed", completed_at=moment(1_000), duration_ms=500, bytes=2_048
        ),
    )  # fmt: skip
    rows = job_view.checkpoint_rows(checkpoints)
    assert [row["epoch"] for row in rows] == [4, 3, 2, 1]
    assert (rows[1]["failure"], rows[2]["slowest"]) == ("the disk is full", "hourly 3: 900 ms")
    assert job_view.durations(checkpoints) == {
        "whole": [(1_000, 0.5), (2_000, 1.5)],
        "longest alignment": [(2_000, 0.04)],
    }
    assert job_view.sizes(checkpoints) == {"all files": [(1_000, 2.0), (2_000, 4.0)], "written": [(2_000, 1.0)]}
    assert job_view.default_epoch(checkpoints) == 2
    assert job_view.default_epoch(checkpoints[:2]) is None
    assert [row["subtask"] for row in job_view.checkpoint_subtask_rows(checkpoints[2])] == [3, 1]


def test_a_failure_shows_the_place_of_its_record() -> None:
    failure = ExceptionInfo(
        at=NOW, attempt=2, message="no number", domain=Domain.USER, place="flights-0 at 17", node="rate", subtask=0,
        remedy="on_error: drop", trace="File x",
    )  # fmt: skip
    (view,) = exception_views((failure,))
    assert view.where == (("Record", "flights-0 at 17"), ("Node", "rate"), ("Subtask", "0"), ("Attempt", "2"))
    assert (view.at, view.remedy, view.trace) == ("2026-01-31 12:00:00 UTC", "on_error: drop", "File x")


def test_output_becomes_rows() -> None:
    open_now = status(transactions=(TransactionState(sink="s", subtask=1, name="t", age_ms=1_500, prepared=True),))
    assert job_view.open_transaction_rows(open_now)[0]["state"] == "prepared"
    info = TransactionInfo(name="t", sink="s", job_id="a", state="Ongoing", safe="abort", why="no record names it")
    assert job_view.transaction_rows(TransactionList(transactions=(info,)))[0]["holds"] == NONE
    letters = [DeadLetterInfo(node="n", topic="d", partition=0, offset=at, at=NOW, value="x" * 500) for at in range(2)]
    shown = job_view.letter_rows(DeadLetterList(letters=tuple(letters)))
    assert [row["id"] for row in shown] == ["d-0-1", "d-0-0"]
    assert len(str(shown[0]["value"])) == job_view.VALUE_LENGTH
    audit = SinkAudit(sink="s", verdict="differs", rows=3, expected_rows=4, reasons=("one is missing",))
    (row,) = job_view.audit_rows(AuditReport(job_id="a", sinks=(audit,)))
    assert (row["verdict"], row["reasons"]) == ("differs", "one is missing")


def test_each_state_has_a_row_with_its_places_and_growth() -> None:
    groups = StateOfNode(
        state="groups",
        memory_bytes=2_048,
        storage_bytes=1_024,
        rows=7,
        growth_bytes_per_hour=-3 * 1_024,
        dropped=False,
    )
    totals = NodeStatus(
        node="totals",
        kind="aggregate",
        parallelism=1,
        states=(groups, StateOfNode(state="distinct_x", growth_bytes_per_hour=10)),
    )
    first, second = job_view.state_rows(status(nodes=(totals,)))
    assert first == {
        "id": "totals/groups",
        "node": "totals",
        "state": "groups",
        "rows": "7",
        "memory": "2 kB",
        "disk": "0 B",
        "storage": "1 kB",
        "growth": "-3 kB",
        "dropped": "never",
    }
    assert (second["rows"], second["storage"], second["growth"], second["dropped"]) == (NONE, NONE, "+10 B", "by time")
    assert job_view.readable_states(status(nodes=(totals, node("kept")))) == {
        "totals": "totals",
        "totals/groups": "totals: groups, as it is kept",
    }


def test_rows_of_state_are_texts_under_numbers() -> None:
    names = [f"name{number}" for number in range(14)]
    found = StateRows(
        epoch=4,
        path="p",
        age_ms=2_000,
        node="totals",
        state=None,
        keys=("name0",),
        columns=dict.fromkeys(names, "String"),
        rows=(dict.fromkeys(names, "x" * 100), {"name0": None, "name1": 0}),
        more=True,
    )
    shown = job_view.stored_rows(found)
    assert shown.text == (
        "2 rows of checkpoint 4, 2 s old; there are more: give a key; 2 more columns: `headrace state read`"
    )
    assert [label for _, label in shown.columns] == names[:12]
    assert shown.rows[0]["c0"] == "x" * 60 + ".."
    assert (shown.rows[1]["id"], shown.rows[1]["c0"], shown.rows[1]["c1"]) == (1, "NULL", "0")
