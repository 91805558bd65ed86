"""What becomes of a savepoint's state, told by `explain --against`, `submit` and `upgrade` before anything starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.savepoints.savepoint import write_savepoint
from headrace.core.source_state import SourceState, SplitState
from support.control.scripted_cluster import TOKEN, ScriptedCluster, serving
from support.processes.commands import headrace

YAML = """\
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
    return ScriptedCluster()


@pytest.fixture(autouse=True)
def folder(cluster: ScriptedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "p.yaml").write_text(YAML)
    (tmp_path / "other.yaml").write_text(YAML.replace("numbers", "figures"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    with serving(cluster) as url:
        monkeypatch.setenv("HEADRACE_COORDINATOR", url)
        monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
        yield tmp_path


@pytest.fixture
def savepoint(folder: Path) -> str:
    path = folder / "kept"
    path.mkdir()
    manifest = Manifest(
        kind="savepoint",
        job="0123456789ab",
        pipeline="counting",
        epoch=5,
        attempt=1,
        created_at_ms=1,
        version="0.1.0",
        plan_hash="h",
        max_parallelism=128,
        parallelism={"numbers": 1},
        nodes={"numbers": "source", "out": "sink"},
        states=(),
        sources={"numbers": SourceState((SplitState("numbers", 0, 7),))},
        splits={},
        drained=True,
    )
    write_savepoint(manifest, str(path))
    return str(path)


def test_explain_against_a_savepoint_that_fits(savepoint: str) -> None:
    result = headrace("explain", "p.yaml", "--against", savepoint)
    assert "numbers  restored  goes on at the positions of 1 partition" in result.stdout
    assert "--allow-drained" in result.stderr
    document = json.loads(headrace("explain", "p.yaml", "--against", savepoint, "--json").stdout)
    assert document["loses_state"] is False
    assert [(each["node"], each["verdict"]) for each in document["nodes"]] == [("numbers", "restored")]


def test_explain_against_ends_with_2_when_state_would_be_lost(savepoint: str) -> None:
    result = headrace("explain", "other.yaml", "--against", savepoint, code=2)
    assert "numbers  dropped" in result.stdout
    assert json.loads(headrace("explain", "other.yaml", "--against", savepoint, "--json", code=2).stdout)["loses_state"]
    headrace("explain", "other.yaml", "--against", savepoint, "--rename", "numbers=figures")
    assert "there is no savepoint" in headrace("explain", "p.yaml", "--against", "nothing", code=2).stderr


def test_submit_tells_the_verdict_first_and_refuses(cluster: ScriptedCluster, savepoint: str) -> None:
    refused = headrace("submit", "other.yaml", "--from-savepoint", savepoint, code=2)
    assert "figures  new" in refused.stderr
    assert "state of numbers" in refused.stderr
    assert cluster.jobs_by_id == {}
    accepted = headrace("submit", "other.yaml", "--from-savepoint", savepoint, "--allow-dropped-state")
    (job,) = cluster.jobs_by_id
    assert accepted.stdout == f"{job}\n"
    assert cluster.jobs_by_id[job].request.from_savepoint == savepoint


def test_what_cannot_be_read_from_here_is_left_to_the_coordinator(cluster: ScriptedCluster) -> None:
    result = headrace("submit", "p.yaml", "--from-savepoint", "/only/on/the/cluster")
    assert "the coordinator judges it" in result.stderr
    assert len(cluster.jobs_by_id) == 1


def test_upgrade_is_refused_before_the_job_is_stopped(
    cluster: ScriptedCluster, savepoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.control.scripted_cluster.CHECKPOINT_PATH", savepoint)
    job = headrace("submit", "p.yaml").stdout.strip()
    assert "state of numbers" in headrace("upgrade", job, "other.yaml", code=2).stderr
    assert cluster.jobs_by_id[job].state == "RUNNING"
    headrace("upgrade", job, "other.yaml", "--rename", "numbers=figures")
    assert cluster.jobs_by_id[job].state == "FINISHED"


def test_another_number_of_key_groups_replaces_the_pipelines(cluster: ScriptedCluster, savepoint: str) -> None:
    headrace("submit", "p.yaml", "--from-savepoint", savepoint, "--max-parallelism", "256")
    (job,) = cluster.jobs_by_id
    request = cluster.jobs_by_id[job].request
    assert request.max_parallelism == 256
    assert request.file_form()["max_parallelism"] == 256
    headrace("upgrade", job, "p.yaml", "--max-parallelism", "512")
    upgraded = next(each.request for number, each in cluster.jobs_by_id.items() if number != job)
    assert upgraded.file_form()["max_parallelism"] == upgraded.max_parallelism == 512
