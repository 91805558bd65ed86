"""Checks and completes the settings of a replay on Kubernetes. Pure.

The names are Spark's: see "Running Spark on Kubernetes" for all settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from headrace.core.errors import UserError
from headrace.spark.cluster.yarn_settings import executor_room

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
    found = {(match[1], conf[name]) for name in conf if (match := _MOUNT.fullmatch(name)) is not None}
    return tuple(path for path in sorted({path for _, path in found}) if all((role, path) in found for role in roles))


def pod_room(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the memory settings of executor pods for Python; empty if the user sets one. conf: with defaults."""
    return {} if _ROOM_FACTOR in conf else executor_room(conf)


def pod_name(pipeline: str, token: str) -> str:
    """Returns the name of a driver pod; the token makes it unique."""
    return f"headrace-{pipeline}"[: _POD_NAME_MAX - len(token) - len(_SUFFIX) - 1].rstrip("-") + f"-{token}{_SUFFIX}"
