"""Durations and sizes in `headrace status`."""

from __future__ import annotations

import pytest

from headrace.cli.jobs.status_text import Shown, print_status
from headrace.client.models import (
    CheckpointInfo,
    CheckpointSubtask,
    CompletedCheckpoint,
    JobStatus,
    NodeStatus,
    StateOfNode,
    StatePlaces,
    WaitingState,
    moment,
)
from headrace.core.text.plural import bytes_text
from headrace.core.text.span_text import span_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_940, "59.9 s"),
        (60_000, "1 min 0 s"),
        (303_400, "5 min 3 s"),
        (7_800_000, "2 h 10 min"),
        (360_000_000, "4 d 4 h"),
        (-1_500, "-1.5 s"),
    ],
)
def test_spans(ms: int, text: str) -> None:
    assert span_text(ms) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (12_345, "12.3 kB"), (5_000_000, "5.00 MB")])
def test_sizes(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_checkpoints_have_their_duration_and_the_slowest_subtask(capsys: pytest.CaptureFixture[str]) -> None:
    newest = CompletedCheckpoint(epoch=7, completed_at=moment(0), path="/c", bytes=1_000)
    complete = CheckpointInfo(
        epoch=7,
        attempt=1,
        status="committed",
        duration_ms=2_500,
        aligned_ms=40,
        slowest=(CheckpointSubtask(task="hourly", subtask=3, worker="w", took_ms=900),),
    )
    running = CheckpointInfo(epoch=9, attempt=1, status="in-progress", duration_ms=61_000, slots_acked=1, slots=2)
    failed = CheckpointInfo(epoch=8, attempt=1, status="failed", duration_ms=100, failure="the disk is full")

    print_status(
        job(checkpoint=newest, checkpoint_complete=complete, checkpoint_running=running, checkpoint_failed=failed),
        failures=(),
        shown=Shown(),
    )

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "checkpoint 7 took 2.5 s, slowest subtask hourly-3: 900 ms, longest alignment 40 ms" in lines
    assert "checkpoint 9 runs for 1 min 1 s: 1 of 2 slots are done" in lines
    assert "checkpoint 8 failed after 100 ms: the disk is full" in lines


def test_a_checkpoint_whose_figures_are_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    older = CompletedCheckpoint(epoch=7, completed_at=moment(0), path="/c", bytes=1_000)

    print_status(job(checkpoint=older), failures=(), shown=Shown())

    printed = capsys.readouterr().out
    assert ", 1,000 bytes, /c" in printed and "took" not in printed


def test_time_that_stands_still_says_since_when_and_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    step = WaitingState(node="hourly", on="the next row of source s", since=moment(0))

    print_status(job(waiting=(step,)), failures=(), shown=Shown())

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "waiting: hourly since 1970-01-01 00:00:00 for the next row of source s" in lines


def job(**fields: object) -> JobStatus:
    whole = {"job_id": "a", "name": "n", "state": "RUNNING", "attempt": 1, "parallelism": 1} | fields
    return JobStatus.model_validate(whole)


def test_each_state_has_its_rows_its_bytes_by_place_and_its_growth(capsys: pytest.CaptureFixture[str]) -> None:
    states = (
        StateOfNode(
            state="groups",
            memory_bytes=64_000_000,
            disk_bytes=1_200_000_000,
            storage_bytes=300_000_000,
            rows=4_000_000,
            growth_bytes_per_hour=25_000_000,
        ),
        StateOfNode(state="distinct_x", memory_bytes=10),
    )
    nodes = (NodeStatus(node="totals", kind="aggregate", parallelism=1, states=states),)

    print_status(job(nodes=nodes, state_places=StatePlaces()), failures=(), shown=Shown())
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    head = next(number for number, line in enumerate(lines) if line[:2] == ["STATE", "OF"])
    assert lines[head + 1] == ["totals", "groups", "4,000,000", "64.0", "MB", "1.20", "GB", "300", "MB", "+25.0", "MB"]
    assert lines[head + 2] == ["totals", "distinct_x", "-", "10", "B", "0", "B", "-", "-"]

    print_status(job(nodes=nodes), failures=(), shown=Shown())
    assert "STATE OF" not in capsys.readouterr().out
