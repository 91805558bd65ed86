"""Jobs on a cluster from Python, against the real REST API."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as hr
from headrace.core.errors import ExternalError, InvalidPipelineError, UnreachableError
from support.control.scripted_cluster import TOKEN, ScriptedCluster, serving


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster()


@pytest.fixture(autouse=True)
def folder(cluster: ScriptedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    with serving(cluster) as url:
        monkeypatch.setenv("HEADRACE_COORDINATOR", url)
        monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
        yield tmp_path


def built(name: str = "built") -> hr.Pipeline:
    pipeline = hr.Pipeline(name)
    numbers = pipeline.source("numbers", generator={"columns": {"n": {"sequence": {}}}}, schema={"n": "int64"})
    numbers.filter("even", "n % 2 = 0").sink("out", print={}, format="json")
    return pipeline


def test_a_job_from_submission_to_its_end(cluster: ScriptedCluster, folder: Path) -> None:
    job = hr.submit(built(), parallelism=2, renames={"a": "b"}, from_savepoint="kept", claim=True)
    request = cluster.jobs_by_id[job].request
    assert (request.from_savepoint, request.claim, request.renames) == (f"{folder}/kept", True, {"a": "b"})
    assert [each.job_id for each in hr.jobs()] == [job]
    assert hr.status("built").parallelism == 2
    assert hr.rescale(job, 3).parallelism == 3
    assert hr.savepoint(job, Path("here")) == f"{folder}/here/savepoint-1"
    with pytest.raises(ExternalError, match="has not ended"):
        hr.wait(job, timeout_s=0.1)
    assert hr.stop(job, savepoint="here", drain=True) == f"{folder}/here/drained-1"
    assert hr.wait(job).state == "FINISHED"
    other = hr.submit(built("other").build())
    assert hr.cancel(other).state == "CANCELED"


def test_a_file_is_submitted_with_the_code_beside_it(cluster: ScriptedCluster, folder: Path) -> None:
    path = folder / "p.yaml"
    path.write_text(
        built("filed").to_yaml().replace("filter: n % 2 = 0", 'map: {function: "fns_of_a_file:f", schema: {n: int64}}')
    )
    (folder / "fns_of_a_file.py").write_text("def f(rows):\n    return rows\n")
    (folder / "lib.py").write_text("")
    job = hr.submit(path, py_files=[Path("lib.py")])
    assert [each.name for each in cluster.jobs_by_id[job].request.code] == ["lib.py", "pipeline-code.tar.gz"]


def test_what_is_wrong_is_raised(cluster: ScriptedCluster) -> None:
    broken = built()
    broken.source("more", generator={"columns": {"n": {"sequence": {}}}}, schema={"n": "int64"}).filter("f", "m > 1")
    with pytest.raises(InvalidPipelineError):
        hr.submit(broken)
    with pytest.raises(InvalidPipelineError):
        hr.submit(built(), parallelism=1_000)
    with pytest.raises(UnreachableError):
        hr.jobs(coordinator="http://127.0.0.1:1")
