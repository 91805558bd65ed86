"""Checks and completes the settings of a replay on YARN and on Kubernetes, and reads Spark's own defaults:
`spark-defaults.conf` in Spark's configuration folder, which count as the user's choice.

The names are Spark's: see "Running Spark on YARN" and "Running Spark on Kubernetes" for all settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from headrace.core.errors import UserError

_SETTING = re.compile(r"([^\s=:#!][^\s=:]*)[\s=:]+(.*)")


def conf_folder() -> Path | None:
    """Returns the folder with Spark's configuration files, or None."""
    named = os.environ.get("SPARK_CONF_DIR")
    home = os.environ.get("SPARK_HOME")
    folder = Path(named) if named else Path(home, "conf") if home else None
    return folder if folder is not None and folder.is_dir() else None


def with_defaults(chosen: Mapping[str, str]) -> dict[str, str]:
    """Returns the user's settings, completed with Spark's defaults."""
    folder = conf_folder()
    file = None if folder is None else folder / "spark-defaults.conf"
    if file is None or not file.is_file():
        return dict(chosen)
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    defaults = {match[1]: match[2] for match in map(_SETTING.fullmatch, lines) if match is not None}
    return defaults | dict(chosen)


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


SCHEME = "k8s://"
DRIVER, EXECUTOR = "driver", "executor"
NAMESPACE = "spark.kubernetes.namespace"
POD_NAME = "spark.kubernetes.driver.pod.name"
UPLOAD_PATH = "spark.kubernetes.file.upload.path"
_IMAGE = "spark.kubernetes.container.image"
_ROOM_FACTOR = "spark.kubernetes.memoryOverheadFactor"
_MOUNT = re.compile(r"spark\.kubernetes\.(driver|executor)\.volumes\.[^.]+\.[^.]+\.mount\.path")
_POD_NAME_MAX = 63
_SUFFIX = "-driver"


def is_kubernetes(master: str | None) -> bool:
    """Whether a master is a Kubernetes cluster."""
    return master is not None and master.startswith(SCHEME)


def api_address(master: str) -> tuple[str, int]:
    """Returns host and port of the API server, as Spark reads them. Raises UserError."""
    text = master.removeprefix(SCHEME)
    url = urlsplit(text if "://" in text else f"https://{text}")
    try:
        port = url.port or {"https": 443, "http": 80}.get(url.scheme)
    except ValueError:
        port = None
    if not url.hostname or port is None:
        raise UserError(f"{master!r} is no address of a Kubernetes API", remedy="write k8s://https://host:6443")
    return url.hostname, port


def require_image(roles: tuple[str, ...], conf: Mapping[str, str]) -> None:
    """Raises UserError if the pods of these roles have no image. conf: with defaults."""
    for role in roles:
        if not (conf.get(_IMAGE) or conf.get(f"spark.kubernetes.{role}.container.image")):
            raise UserError(
                f"--master k8s: the {role}s have no image",
                remedy=f"build one with headrace in it (docs/spark.md), and name it: --conf {_IMAGE}=you/image:tag",
            )


def mounts(roles: tuple[str, ...], conf: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the folders that are volumes of the pods of all these roles. conf: with defaults."""
    pairs = {(match[1], conf[name]) for name in conf if (match := _MOUNT.fullmatch(name)) is not None}
    return tuple(path for path in sorted({path for _, path in pairs}) if all((role, path) in pairs for role in roles))


def pod_room(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the memory settings of executor pods for Python; empty if the user sets one. conf: with defaults."""
    return {} if _ROOM_FACTOR in conf else executor_room(conf)


def pod_name(pipeline: str, token: str) -> str:
    """Returns the name of a driver pod; the token makes it unique."""
    return f"headrace-{pipeline}"[: _POD_NAME_MAX - len(token) - len(_SUFFIX) - 1].rstrip("-") + f"-{token}{_SUFFIX}"
