"""The labels of what a cluster has in Kubernetes: by them its pods are found, by us and by people. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.kubernetes.ownership import CLUSTER_LABEL, MANAGED_BY, MANAGER

COMPONENT_LABEL = "app.kubernetes.io/component"
WORKER = "worker"
COORDINATOR = "coordinator"


def labels_of(cluster: str, component: str) -> Mapping[str, str]:
    """The labels of one component of a cluster; the common ones are those that Kubernetes recommends."""
    return {
        "app.kubernetes.io/name": "headrace",
        "app.kubernetes.io/instance": cluster,
        MANAGED_BY: MANAGER,
        COMPONENT_LABEL: component,
        CLUSTER_LABEL: cluster,
    }


def selector_of(cluster: str, component: str) -> str:
    """A label selector that finds one component of a cluster."""
    return f"{CLUSTER_LABEL}={cluster},{COMPONENT_LABEL}={component}"
