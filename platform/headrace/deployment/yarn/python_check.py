"""Checks the Python of an application before it is submitted: a wrong one is found here in a second, and on the nodes
after every attempt has failed.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from headrace.core.errors import UserError
from headrace.deployment.yarn.cluster_spec import YarnSpec

ANSWER_SECONDS = 60.0
_NEEDED = ("headrace", "py4j")
_PACKAGE = re.compile(r"(?:^|/)lib/python(\d+\.\d+)/site-packages/([\w.]+)-([^/]+)\.dist-info(?:/|$)")
_PROGRAM = re.compile(r"^(?:\./)?bin/python\Z")
_ASK = "import importlib.metadata as m; import py4j; print(m.version('headrace'))"


def check_python(spec: YarnSpec, version: str) -> None:
    """Raises UserError for an environment without what containers run, or with another version of headrace than this.

    An archive in the cluster's storage, and an interpreter that this host does not have, are not checked here.
    """
    if spec.environment is not None and "://" not in spec.environment:
        check_archive(Path(spec.environment), version)
    elif spec.python is not None and Path(spec.python).exists():
        _check_program(spec.python, version)


def check_archive(archive: Path, version: str) -> None:
    """Checks an archive as venv-pack and conda-pack make them. Raises UserError."""
    names = list(_names(archive))
    if not any(_PROGRAM.match(name) for name in names):
        raise UserError(
            f"{archive} has no bin/python", remedy="make it with venv-pack or conda-pack, or set `python` in --config"
        )
    found = {match[2].lower(): match[3] for name in names if (match := _PACKAGE.search(name))}
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise UserError(
            f"{archive} has no {' and no '.join(missing)}",
            remedy="pip install 'headrace[yarn]' there, and pack it again",
        )
    _require_version(str(archive), found["headrace"], version)


def _check_program(program: str, version: str) -> None:
    try:
        answer = subprocess.run(
            [program, "-c", _ASK], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().splitlines()[-1:] or ["no reason"]
        raise UserError(
            f"{program} cannot run headrace on YARN: {reason[0]}", remedy="pip install 'headrace[yarn]' there"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"{program} does not run: {error}", remedy="correct `python` in --config") from error
    _require_version(program, answer.stdout.strip(), version)


def _require_version(where: str, found: str, version: str) -> None:
    if found != version:
        raise UserError(
            f"{where} has headrace {found}, and this is {version}", remedy="use the same version at both places"
        )


def _names(archive: Path) -> Iterable[str]:
    """The names in an archive. Raises UserError."""
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                return packed.namelist()
        with tarfile.open(archive) as packed:
            return packed.getnames()
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{archive} cannot be read: {error}", remedy="name a .tar.gz or .zip of a Python environment"
        ) from error
