"""The operator's account as users make it: the objects of `deploy/k8s/operator/operator.yaml` in a namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection
from support.kubernetes.control.kubernetes import Kubernetes
from support.repository import ROOT

ACCOUNT = "headrace-operator"
_PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "Deployment": "deployments",
    "PodDisruptionBudget": "poddisruptionbudgets",
}


def operator_documents() -> list[dict[str, Any]]:
    """The objects."""
    text = (ROOT / "deploy/k8s/operator/operator.yaml").read_text()
    return list(YAML(typ="safe").load_all(text))


def apply_operator(connection: Connection, namespace: str, *, with_deployment: bool = False) -> None:
    """Applies account and rights; with the Deployment, too, if that is wanted."""
    for document in operator_documents():
        kind = document["kind"]
        if kind == "RoleBinding":
            # kubectl does so for subjects without one
            document["subjects"][0]["namespace"] = namespace
        place = None if kind == "ClusterRole" else namespace
        if kind != "Deployment" or with_deployment:
            collection = Collection(document["apiVersion"], _PLURALS[kind], place)
            connection.apply(collection, document["metadata"]["name"], document, manager="tests")


def bind_everywhere(connection: Connection, namespace: str) -> None:
    """Gives the account of a namespace its rights in all namespaces, as the head of operator.yaml says."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    bindings = Collection("rbac.authorization.k8s.io/v1", "clusterrolebindings")
    connection.create(bindings, {"metadata": {"name": ACCOUNT}, "roleRef": role, "subjects": [subject]})


def operator_kubeconfig(kubernetes: Kubernetes, namespace: str, folder: Path) -> Path:
    """A kubeconfig with the account's rights and no others."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    answer = kubernetes.api.create(path, {"spec": {"expirationSeconds": 3_600}})
    return kubernetes.kubeconfig_of(answer["status"]["token"], folder / "operator.kubeconfig")
