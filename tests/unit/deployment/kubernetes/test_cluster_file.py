"""The description of a cluster, in a file: every problem has its place and a remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.core.config import FileModel
from headrace.core.errors import UserError
from headrace.deployment.description import BYTES_MAX
from headrace.deployment.kubernetes.cluster_file import read_cluster_file
from headrace.deployment.kubernetes.cluster_spec import (
    AttendantPods,
    ClusterSpec,
    CoordinatorPods,
    NetworkRules,
    WorkerPods,
)
from headrace.spec.wording import file_keys
from support.repository import ROOT

WHOLE = """\
image: you/headrace:1
imagePullPolicy: Never
ledger: s3://bucket/flights
serviceAccount: mine
coordinator: {replicas: 2, cpu: 250m, memory: 512Mi}
workers:
  slots: 2
  min: 1
  max: 4
  idle: 30s
  cpu: "2"
  memory: 4Gi
  podTemplate:
    spec: {tolerations: [{key: spot, operator: Exists}]}
env: {HEADRACE_LEASE: 10s}
"""
LEAST = "image: i\nledger: s3://b\n"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "cluster.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_whole_description(tmp_path: Path) -> None:
    spec = read_cluster_file(written(tmp_path, WHOLE))
    assert (spec.coordinator.replicas, spec.coordinator.cpu) == (2, "250m")
    provisioning = spec.workers.provisioning
    assert (provisioning.slots, provisioning.workers_min, provisioning.workers_max) == (2, 1, 4)
    assert provisioning.idle_ms == 30_000
    assert spec.workers.pod_template == {"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}


def test_the_least_that_describes_a_cluster(tmp_path: Path) -> None:
    spec = read_cluster_file(written(tmp_path, LEAST))
    assert (spec.coordinator.replicas, spec.workers.slots, spec.service_account) == (1, 1, "headrace-coordinator")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cluster.yaml: takes a mapping, not nothing"),
        ("[]", "cluster.yaml: takes a mapping"),
        ("image: i\n", "ledger"),
        ("image: ''\nledger: s3://b\n", "image"),
        (LEAST + "imagePullPolicy: Sometimes\n", "imagePullPolicy"),
        (LEAST + "worker: {}\n", "did you mean 'workers'?"),
        (LEAST + "workers: {slots: 0}\n", "workers.slots: "),
        (LEAST + "workers: {memory: 2 GB}\n", "workers.memory: '2 GB' is no amount"),
        (LEAST + "workers: {cpu: '0'}\n", "workers.cpu: '0' is no amount"),
        (LEAST + "workers: {idle: soon}\n", "workers.idle: 'soon' is not a duration"),
        (LEAST + "workers: {min: 3, max: 2}\n", "workers: at least 3 and at most 2 workers do not fit together"),
        (LEAST + "workers: {podTemplate: {containers: []}}\n", "workers.podTemplate: "),
        (LEAST + "coordinator: {replicas: 10}\n", "coordinator.replicas: "),
        (LEAST + "env: {A: [1]}\n", "env.A"),
        (LEAST + "networkPolicy: true\n", "networkPolicy"),
        (LEAST + "networkPolicy: {enabled: true, client: []}\n", "did you mean 'clients'?"),
        (LEAST + "networkPolicy: {egress: [443]}\n", "networkPolicy.egress"),
        (LEAST + "disruptionBudget: maybe\n", "disruptionBudget"),
        ("image: [\n", "cluster.yaml:2:1: "),
        (b"image: \xff\n", "cluster.yaml"),
        ("image: i\nimage: j\nledger: l\n", 'found duplicate key "image"'),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_cluster_file(written(tmp_path, text))
    assert said in str(caught.value)
    assert "cluster.yaml" in str(caught.value)


def test_the_page_describes_a_cluster_and_each_field(tmp_path: Path) -> None:
    page = (ROOT / "docs/kubernetes.md").read_text()
    (example,) = re.findall(r"^```yaml\n(image: .*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert read_cluster_file(written(tmp_path, example)).workers.slots == 2
    table = page.partition("## The description")[2].partition("## What is applied")[0]
    parts: dict[str, type[FileModel]] = {
        "coordinator": CoordinatorPods,
        "attendant": AttendantPods,
        "workers": WorkerPods,
        "networkPolicy": NetworkRules,
    }
    described = [key for key in file_keys(ClusterSpec) if key not in parts]
    described += [f"{name}.{key}" for name, model in parts.items() for key in file_keys(model)]
    for key in described:
        assert f"`{key}`" in table or f"`.{key.rpartition('.')[2]}`" in table, key


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_cluster_file(written(tmp_path, "workers: {slots: 0, memory: x}\n"))
    for place in ("image", "ledger", "workers.slots", "workers.memory"):
        assert place in str(caught.value)


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_cluster_file(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="more than 1 MiB"):
        read_cluster_file(written(tmp_path, b" " * (BYTES_MAX + 1)))
