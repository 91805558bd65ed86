"""What a replay on YARN needs to be told where the user says nothing, and what is said where no cluster is. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.errors import UserError

YARN = "yarn"
PYTHON_MB = 1024
"""Beyond the heap, for each Python process: a worker's rows, polars and Arrow. YARN ends containers that take more."""
_CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CORES = "spark.executor.cores"
_ATTEMPTS = "spark.yarn.maxAppAttempts"
_SAYS_ROOM = {
    "executor": ("memoryOverhead", "memoryOverheadFactor", "pyspark.memory"),
    "driver": ("memoryOverhead", "memoryOverheadFactor"),
}


def require_conf_dir(environment: Mapping[str, str]) -> None:
    """Raises UserError where nothing says which cluster."""
    if not any(environment.get(name) for name in _CONF_DIRS):
        raise UserError(
            "--master yarn: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
            remedy="set one of them to the folder with the cluster's yarn-site.xml",
        )


def executor_room(chosen: Mapping[str, str]) -> dict[str, str]:
    """Memory of executors for Python; nothing where the user says how much. chosen: with Spark's defaults file."""
    cores = chosen.get(_CORES, "1")
    return _room("executor", chosen, int(cores) if cores.isdigit() else 1)


def driver_settings(chosen: Mapping[str, str], *, follow: bool) -> dict[str, str]:
    """Of a driver that runs on the cluster. chosen: with Spark's defaults file.

    A driver that is lost is not tried again: it may have published everything, and a replay that has ended is not taken
    up but begun anew. One that follows goes on where it stood, so it may be tried as often as the cluster does.
    """
    attempts = {} if follow or _ATTEMPTS in chosen else {_ATTEMPTS: "1"}
    return {**_room("driver", chosen, 1), **attempts}


def _room(role: str, chosen: Mapping[str, str], processes: int) -> dict[str, str]:
    if any(f"spark.{role}.{name}" in chosen for name in _SAYS_ROOM[role]):
        return {}
    return {f"spark.{role}.memoryOverhead": f"{PYTHON_MB * processes}m"}
