"""The Python of an application is checked before anything is submitted."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import headrace
from headrace.core.errors import UserError
from headrace.deployment.yarn.cluster_spec import YarnSpec
from headrace.deployment.yarn.shipping import check_archive, check_python

SITE = "lib/python3.11/site-packages"
WHOLE = ("bin/python", f"{SITE}/headrace-1.2.dist-info/METADATA", f"{SITE}/py4j-0.10.9.9.dist-info/METADATA")


def packed(folder: Path, names: Sequence[str]) -> Path:
    """As venv-pack writes it."""
    archive = folder / "env.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
    return archive


def test_an_environment_with_what_containers_run(tmp_path: Path) -> None:
    check_archive(packed(tmp_path, WHOLE), "1.2")
    check_archive(packed(tmp_path, [f"./{name}" for name in WHOLE]), "1.2")
    with zipfile.ZipFile(tmp_path / "env.zip", "w") as archive:
        for name in WHOLE:
            archive.writestr(name, "")
    check_archive(tmp_path / "env.zip", "1.2")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (WHOLE[1:], "has no bin/python"),
        (WHOLE[:2], "has no py4j"),
        (WHOLE[:1], "has no headrace and no py4j"),
        ((WHOLE[0], f"{SITE}/headrace-1.1.dist-info/METADATA", WHOLE[2]), "has headrace 1.1, and this is 1.2"),
    ],
)
def test_an_environment_that_does_not_fit(tmp_path: Path, names: Sequence[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_archive(packed(tmp_path, names), "1.2")


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "env.tar.gz").write_text("no archive")
    for name in ("env.tar.gz", "none.tar.gz"):
        with pytest.raises(UserError, match="cannot be read"):
            check_archive(tmp_path / name, "1.2")


def test_an_interpreter_is_asked() -> None:
    check_python(YarnSpec(ledger="/l", python=sys.executable), headrace.__version__)
    with pytest.raises(UserError, match=r"and this is 0\.0\.1"):
        check_python(YarnSpec(ledger="/l", python=sys.executable), "0.0.1")
    with pytest.raises(UserError, match="cannot run headrace on YARN"):
        check_python(YarnSpec(ledger="/l", python="/bin/false"), headrace.__version__)


def test_what_this_host_does_not_have_is_left_to_the_nodes() -> None:
    check_python(YarnSpec(ledger="/l", python="/only/on/nodes/python"), "1.2")
    check_python(YarnSpec(ledger="/l", environment="hdfs:///env.tar.gz"), "1.2")
