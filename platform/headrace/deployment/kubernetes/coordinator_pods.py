"""Why coordinators do not run, by the status of their pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.kubernetes.documents import Document, documents_at, text_at, value_at
from headrace.resources.kubernetes.pod_report import end_of, pending_reason


def coordinator_trouble(pods: Iterable[Mapping[str, Any]]) -> str:
    """The first reason that a pod gives, with its name; empty: none gives one."""
    for pod in pods:
        reason = _trouble(pod.get("status", {}))
        if reason:
            return f"pod {pod['metadata']['name']}: {reason}"
    return ""


def refused_pods(deployment: Document) -> str:
    """Why a Deployment has no pods, such as a quota or the Pod Security level of its namespace; empty: no reason."""
    for each in documents_at(deployment, "status", "conditions"):
        if value_at(each, "type") == "ReplicaFailure" and value_at(each, "status") == "True":
            return text_at(each, "message") or text_at(each, "reason") or ""
    return ""


def _trouble(status: Mapping[str, Any]) -> str:
    for container in status.get("containerStatuses", []):
        state = container.get("state", {})
        # a container that ends is started again after a pause that grows; its last end says why, the pause does not
        last = end_of(container) or end_of({"state": container.get("lastState", {})})
        if last is not None and "running" not in state:
            return f"it has ended {container.get('restartCount', 0) + ('terminated' in state)} times: {last}"
    return pending_reason(status)
