"""`headrace transactions`, `audit`, `dead-letters` over the real REST API: what is sent, printed, how they end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.models import SinkAudit, moment
from headrace.client.output_models import DeadLetterInfo, EndTransactionsRequest, TransactionInfo
from headrace.coordinator.rest.service import JobConflictError
from support.control.scripted_cluster import TOKEN, ScriptedCluster, serving
from support.processes.commands import headrace

PIPELINE = """\
name: counting
sources:
  numbers:
    generator: {rows: 10, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out:
    from: numbers
    print: {}
    format: json
"""


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(looks=1)


@pytest.fixture
def job(cluster: ScriptedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    with serving(cluster) as url:
        monkeypatch.setenv("HEADRACE_COORDINATOR", url)
        monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
        yield headrace("submit", "p.yaml").stdout.strip()


def transaction(job: str, number: int, safe: str = "commit") -> TransactionInfo:
    return TransactionInfo.model_validate(
        {
            "name": f"t-{number}",
            "sink": "out",
            "job_id": job,
            "job_state": "CANCELED",
            "attempt": 2,
            "subtask": number,
            "state": "Ongoing",
            "age_ms": 90_000,
            "timeout_ms": 900_000,
            "holds_back": [f"delays[{partition}]" for partition in range(5)],
            "epoch": 7,
            "safe": safe,
            "why": "checkpoint 7 names it",
        }
    )


def test_the_status_shows_a_job_s_alarm(cluster: ScriptedCluster, job: str) -> None:
    assert "alarm" not in headrace("status", job).stdout
    cluster.jobs_by_id[job].alarm = "no output was committed for 450 s"
    assert "  alarm: no output was committed for 450 s" in headrace("status", job).stdout


def test_open_transactions_are_listed_with_what_is_safe(cluster: ScriptedCluster, job: str) -> None:
    assert "nothing is open" in headrace("transactions", "list", job).stderr
    cluster.output.open = (transaction(job, 0), transaction(job, 1))
    lines = headrace("transactions", "list", job).stdout.splitlines()
    assert lines[1].split("  ")[0] == "t-0"
    assert "delays[0], delays[1], delays[2] and 2 more" in lines[1]
    assert "90 s" in lines[1]
    assert "15 min" in lines[1]
    assert lines[-1] == "  commit (2 transactions): checkpoint 7 names it"


def test_commit_and_abort_are_dry_unless_told(cluster: ScriptedCluster, job: str) -> None:
    cluster.output.open = (transaction(job, 0),)
    assert "dry run" in headrace("transactions", "commit", job).stderr
    headrace("transactions", "abort", job, "--name", "t-0", "--force", "--yes")
    assert cluster.output.asked == [
        EndTransactionsRequest(action="commit"),
        EndTransactionsRequest(action="abort", names=("t-0",), yes=True, force=True),
    ]
    cluster.refuse = JobConflictError("job runs")
    assert "error: job runs" in headrace("transactions", "commit", job, "--yes", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["list"], "name a JOB, or --brokers"),
        (["list", "job", "--brokers", "h:1"], "name a JOB, or --brokers"),
        (["list", "job", "--property", "a=b"], "--property goes with --brokers"),
        (["list", "--brokers", "h:1", "--property", "a"], "write --property NAME=VALUE"),
    ],
)
def test_wrong_use_of_transactions(job: str, arguments: list[str], text: str) -> None:
    assert text in headrace("transactions", *arguments, code=2).stderr


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["proven"], 0), (["proven", "differs"], 1), (["unprovable", "proven"], 2), (["unprovable", "differs"], 1)],
)
def test_an_audit_ends_with_its_worst_verdict(
    cluster: ScriptedCluster, job: str, verdicts: list[str], code: int
) -> None:
    cluster.output.audits = tuple(
        SinkAudit.model_validate(
            {"sink": f"s{n}", "verdict": each, "rows": 3, "expected_rows": 4, "epoch": 9, "reasons": ["because"]}
        )
        for n, each in enumerate(verdicts)
    )
    told = headrace("audit", job, code=code).stdout
    assert [line.split(": ")[1] for line in told.splitlines() if not line.startswith(" ")] == verdicts
    assert ("because" in told) is (code > 0)
    assert f'"job_id": "{job}"' in headrace("audit", job, "--json", code=code).stdout


def letter(number: int) -> DeadLetterInfo:
    return DeadLetterInfo(
        node="rows",
        topic="dead",
        partition=0,
        offset=number,
        at=moment(number),
        origin=f"in[0] offset {number}",
        reason="no JSON",
        value="x\n" * 100,
        bytes=200,
    )


def test_dead_letters_of_a_job_are_listed_and_sent_until_none_is_left(cluster: ScriptedCluster, job: str) -> None:
    cluster.output.letters = tuple(letter(number) for number in range(5))
    lines = headrace("dead-letters", "list", job, "--limit", "3").stdout.splitlines()
    assert [line.split("offset ")[1].split()[0] for line in lines[1:]] == ["2", "3", "4"]
    assert "x x x" in lines[1]
    assert "no dead letters" in headrace("dead-letters", "list", job, "--node", "other").stderr
    dry = headrace("dead-letters", "redrive", job, "--node", "rows")
    assert dry.stdout == "in: 2 letters would be sent and more\n"
    assert len(cluster.output.letters) == 5
    assert headrace("dead-letters", "redrive", job, "--node", "rows", "--yes").stdout == "in: 5 letters sent\n"
    assert len(cluster.output.letters) == 0
    assert "--set goes with a FILE" in headrace("dead-letters", "list", job, "--set", "a=b", code=2).stderr


def test_a_pipeline_without_dead_letters_says_how_to_keep_them(job: str) -> None:
    told = headrace("dead-letters", "list", "p.yaml", code=2).stderr
    assert "on_error: {dead_letter: <topic>}" in told
