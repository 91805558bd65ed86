"""Completes the settings of a replay on YARN, and checks that a cluster is configured. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.errors import UserError

YARN = "yarn"
PYTHON_MB = 1024
"""Memory beyond the heap for each Python process: a worker's rows, polars and Arrow. YARN kills containers that exceed
theirs.
"""
_CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CORES = "spark.executor.cores"
_ATTEMPTS = "spark.yarn.maxAppAttempts"
_SAYS_ROOM = {
    "executor": ("memoryOverhead", "memoryOverheadFactor", "pyspark.memory"),
    "driver": ("memoryOverhead", "memoryOverheadFactor"),
}


def require_conf_dir(environment: Mapping[str, str]) -> None:
    """Raises UserError if no configuration of a cluster is named."""
    if not any(environment.get(name) for name in _CONF_DIRS):
        raise UserError(
            "--master yarn: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
            remedy="set one of them to the folder with the cluster's yarn-site.xml",
        )


def executor_room(chosen: Mapping[str, str]) -> dict[str, str]:
    """Returns the memory settings of executors for Python; empty if the user sets one. chosen: with Spark's defaults
    file.
    """
    cores = chosen.get(_CORES, "1")
    return _room("executor", chosen, int(cores) if cores.isdigit() else 1)


def driver_settings(chosen: Mapping[str, str], *, follow: bool) -> dict[str, str]:
    """Returns the settings of a driver on the cluster. chosen: with Spark's defaults file.

    YARN must not start a lost replay driver again: it may have published everything, and a finished replay starts over.
    A following driver continues where it stood, so YARN may start it as often as the cluster allows.
    """
    attempts = {} if follow or _ATTEMPTS in chosen else {_ATTEMPTS: "1"}
    return {**_room("driver", chosen, 1), **attempts}


def _room(role: str, chosen: Mapping[str, str], processes: int) -> dict[str, str]:
    if any(f"spark.{role}.{name}" in chosen for name in _SAYS_ROOM[role]):
        return {}
    return {f"spark.{role}.memoryOverhead": f"{PYTHON_MB * processes}m"}
