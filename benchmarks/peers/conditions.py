"""The conditions of a measurement: date, commit, machine, versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from measuring.flink_build import FlinkBuild

import headrace
from headrace.kernels.library import library
from peers.table import Conditions

ROOT = Path(__file__).parent.parent.parent
LIBRARIES = ("confluent-kafka", "polars")


def conditions(flink: FlinkBuild | None) -> Conditions:
    """Returns the current conditions."""
    return Conditions(
        date=datetime.now(UTC).date().isoformat(),
        commit=_commit(),
        machine=f"{_processor()}, {os.cpu_count()} CPUs shared with the broker, load {os.getloadavg()[0]:.1f} before",
        contenders=_versions(flink),
    )


def _versions(flink: FlinkBuild | None) -> Sequence[str]:
    kernels = "with kernels" if library() is not None else "without kernels"
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    own = f"Headrace {headrace.__version__} {kernels}, Python {platform.python_version()}, {libraries}"
    return [own] if flink is None else [own, f"Flink {flink.version} on Java {flink.java.version}"]


@cache
def _commit() -> str:
    """Called once, before the first table: writing a table changes a file of the commit."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
