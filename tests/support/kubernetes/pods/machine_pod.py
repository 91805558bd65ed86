"""Pods that run programs of this machine: its interpreter, the environment of the tests, the repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.kubernetes.nodes.image_archive import MACHINE_IMAGE
from support.machine_root import machine_environment, machine_folders


def machine_pod(
    name: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Returns a pod that runs a command once. spec: more of its specification."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "restartPolicy": "Never",
            "containers": [machine_container(command, environment=environment)],
            "volumes": machine_volumes(),
            **spec,
        },
    }


def machine_container(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns a container for a pod that has `machine_volumes`."""
    variables = {**machine_environment(), **(environment or {})}
    return {
        "name": "main",
        "image": MACHINE_IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "volumeMounts": [
            {"name": f"machine-{number}", "mountPath": str(folder), "readOnly": True}
            for number, folder in enumerate(machine_folders())
        ],
    }


def machine_volumes() -> list[dict[str, Any]]:
    """Returns what a pod sees of this machine."""
    return [
        {"name": f"machine-{number}", "hostPath": {"path": str(folder)}}
        for number, folder in enumerate(machine_folders())
    ]
