"""Why coordinators do not run, by the status of their pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.resources.kubernetes.pod_report import ended_reason, pending_reason


def coordinator_trouble(pods: Iterable[Mapping[str, Any]]) -> str:
    """The first reason that a pod gives, with its name; empty: none gives one."""
    for pod in pods:
        reason = _trouble(pod.get("status", {}))
        if reason:
            return f"pod {pod['metadata']['name']}: {reason}"
    return ""


def _trouble(status: Mapping[str, Any]) -> str:
    if reason := pending_reason(status):
        return reason
    # a container that ends is started again, so what it says is in its last state
    for container in status.get("containerStatuses", []):
        last = {"name": container.get("name"), "state": container.get("lastState", {})}
        if "running" not in container.get("state", {}) and (
            reason := ended_reason({"containerStatuses": [container]}) or ended_reason({"containerStatuses": [last]})
        ):
            return reason
    return ""
