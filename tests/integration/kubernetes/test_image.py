"""The image of deploy/k8s: built by its Dockerfile, run by any user, and as the pods of a cluster that runs a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.kubernetes.documents import Collection
from support.containers.engine import engine
from support.containers.headrace_image import headrace_image, run_image, save_image
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.image_cluster import ImageCluster
from support.repository import ROOT
from support.storage.s3_server import BUCKET, s3_server

__all__ = ["engine"]
ROWS = 2_000
PIPELINE = f"""\
name: numbers
checkpoint: {{interval: 500ms}}
sources:
  numbers:
    generator: {{rows: {ROWS}, columns: {{n: {{sequence: {{}}}}}}}}
    schema: {{n: int64}}
steps:
  even:
    from: numbers
    filter: n % 2 = 0
sinks:
  out:
    from: even
    print: {{}}
    format: json
"""
ANY_USER = ("--user", "54321:54321")
# the build takes 95 CPU seconds; `tidy/deploy/test_image_recipe` reads what it is built by
pytestmark = pytest.mark.full
NOT_COMPILED = """\
import sys
from pathlib import Path
import headrace.coordinator.main, headrace.worker.supervision.supervisor
from headrace.kernels.library import library
assert library() is not None
specs = [spec for module in list(sys.modules.values()) if (spec := getattr(module, "__spec__", None)) is not None]
own = [spec for spec in specs if (spec.origin or "").startswith("/opt/") and spec.origin.endswith(".py")]
print(len(own), [spec.name for spec in own if not Path(spec.cached).exists()])
"""
"""Prints how many modules are loaded, and which of them have no bytecode."""


@pytest.fixture(scope="module")
def image(engine: None) -> Iterator[str]:
    with headrace_image() as built:
        yield built


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a pipeline, which every user may read."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(PIPELINE)
    for path in (folder, *tmp_path.parents[:2], tmp_path):
        path.chmod(0o755)
    return folder


def test_any_user_runs_it_with_a_read_only_root(image: str) -> None:
    for user in ((), ANY_USER, ("--user", "54321:0")):
        done = run_image(image, "--version", options=user)
        assert (done.returncode, done.stdout) == (0, f"headrace {headrace.__version__}\n"), done.stderr


def test_it_validates_a_pipeline_as_any_user(image: str, project: Path) -> None:
    options = (*ANY_USER, "--volume", f"{project}:/project:ro")
    done = run_image(image, "validate", "/project/pipeline.yaml", options=options)
    assert done.returncode == 0, done.stderr


def test_its_user_is_a_number_and_not_root(image: str) -> None:
    done = run_image(image, "-c", "import os; print(os.getuid(), os.getgid())", options=("--entrypoint", "python"))
    assert done.stdout == "10001 10001\n", done.stderr


def test_it_has_compiled_kernels_and_its_bytecode(image: str) -> None:
    """Everything that a coordinator imports was compiled before: it could not be kept when it runs."""
    done = run_image(image, "-c", NOT_COMPILED, options=("--entrypoint", "python"))
    assert done.returncode == 0, done.stderr
    assert (found := re.fullmatch(r"(\d+) \[\]\n", done.stdout)), done.stdout
    assert int(found[1]) > 100


def test_it_has_neither_pip_nor_a_compiler_of_its_own(image: str) -> None:
    done = run_image(image, "-c", "ls /opt /opt/headrace/bin", options=("--entrypoint", "sh"))
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.split())
    assert {"headrace", "python"} <= names
    assert not names & {"build", "pip", "cc", "gcc"}


def test_its_pods_run_a_job_at_the_restricted_level(
    image: str, nodes: NodeCluster, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "image.tar"
    save_image(image, archive)
    nodes.import_image(archive)
    archive.unlink()
    for name, value in nodes.environment.items():
        monkeypatch.setenv(name, value)
    with nodes.namespace("flights") as namespace, s3_server(nodes.here) as storage:
        # nobody else writes its labels
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        cluster = ImageCluster(nodes, namespace, tmp_path / "c", image, f"s3://{BUCKET}/flights", storage.environment())
        cluster.connection.patch(Collection("v1", "namespaces"), namespace, {"metadata": {"labels": labels}})
        nodes.kubectl("--namespace", namespace, "apply", "--kustomize", str(ROOT / "deploy/k8s/base"))
        try:
            cluster.start()
            run_job(cluster, project)
            cluster.stop()
            assert not cluster.remains()
        finally:
            cluster.end()
            cluster.connection.close()


def run_job(cluster: ImageCluster, project: Path) -> None:
    submitted = cluster.headrace("submit", str(project / "pipeline.yaml"))
    assert submitted.code == 0, submitted.err
    status = cluster.wait_state(submitted.out.strip(), "FINISHED")
    assert {node.node: node.rows_in for node in status.nodes}["out"] == ROWS // 2
