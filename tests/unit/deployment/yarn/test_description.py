"""The description of a cluster on YARN: every problem has its place, and the page has every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.core.config import FileModel
from headrace.core.errors import UserError
from headrace.deployment.yarn.cluster_spec import (
    CoordinatorContainer,
    KerberosLogin,
    WorkerContainers,
    YarnCluster,
    YarnSpec,
    memory_mb,
    read_yarn_file,
)
from headrace.spec.wording import file_keys
from headrace.yarn.records import ContainerSize
from support.repository import ROOT

LEAST = "ledger: /shared\npython: /usr/bin/python3\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def test_the_least_that_describes_a_cluster(tmp_path: Path) -> None:
    spec = read_yarn_file(written(tmp_path, LEAST))
    assert (spec.queue, spec.interpreter, spec.coordinator.attempts) == ("default", "/usr/bin/python3", 5)
    assert spec.workers.size == ContainerSize(2048, 1)


def test_an_environment_has_its_python(tmp_path: Path) -> None:
    spec = read_yarn_file(written(tmp_path, "ledger: /shared\nenvironment: env.tar.gz\n"))
    assert spec.interpreter == "environment/bin/python"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ledger: /shared\n", "which Python runs is not given"),
        ("python: p\n", "ledger"),
        (LEAST + "workers: {memory: 2 GB}\n", "workers.memory: '2 GB' is no amount of memory"),
        (LEAST + "workers: {min: 3, max: 2}\n", "workers: at least 3 and at most 2 workers do not fit together"),
        (LEAST + "coordinator: {attempts: 0}\n", "coordinator.attempts: "),
        (LEAST + "kerberos: {principal: a@B, keytab: k}\n", "add tls: true to kerberos"),
        (LEAST + "coordinators: {}\n", "did you mean 'coordinator'?"),
        (LEAST + "env: {A: 'x$HOME'}\n", "env.A: "),
        (LEAST + "env: {A: 'say \"x\"'}\n", "replaces: put it into a file"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_yarn_file(written(tmp_path, text))
    assert said in str(caught.value)


@pytest.mark.parametrize(("text", "expected"), [("512Mi", 512), ("512m", 512), ("2Gi", 2048), ("3 g", 3072)])
def test_amounts_of_memory(text: str, expected: int) -> None:
    assert memory_mb(text) == expected


def test_a_cluster_of_its_own_has_a_folder_in_the_ledger(tmp_path: Path) -> None:
    spec = read_yarn_file(written(tmp_path, LEAST))
    assert YarnCluster("flights", spec).ledger == "/shared"
    assert YarnCluster("flights", spec, is_own=True).ledger == "/shared/flights"
    with pytest.raises(UserError, match="is no name of a cluster"):
        YarnCluster("Flights!", spec)


def test_the_page_describes_a_cluster_and_each_field(tmp_path: Path) -> None:
    page = (ROOT / "docs/yarn.md").read_text()
    (example,) = re.findall(r"^```yaml\n(ledger: .*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert read_yarn_file(written(tmp_path, example)).workers.slots == 2
    table = page.partition("## The description")[2].partition("\n## ")[0]
    parts: dict[str, type[FileModel]] = {
        "coordinator": CoordinatorContainer,
        "workers": WorkerContainers,
        "kerberos": KerberosLogin,
    }
    described = [key for key in file_keys(YarnSpec) if key not in parts]
    described += [f"{name}.{key}" for name, model in parts.items() for key in file_keys(model)]
    for key in described:
        assert f"`{key}`" in table or f"`.{key.rpartition('.')[2]}`" in table, key
