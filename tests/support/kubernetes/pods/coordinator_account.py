"""The account of coordinators as users make it: the objects of `deploy/k8s/base`, in a namespace."""

from __future__ import annotations

from ruamel.yaml import YAML

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection
from support.kubernetes.control.kubernetes import Kubernetes
from support.repository import ROOT

ACCOUNT = "headrace-coordinator"
_PLURALS = {"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings"}


def make_account(connection: Connection, namespace: str) -> None:
    """Creates account, Role and binding."""
    for document in YAML(typ="safe").load_all((ROOT / "deploy/k8s/base/coordinator-account.yaml").read_text()):
        if document["kind"] == "RoleBinding":
            # kubectl does so for subjects without one
            document["subjects"][0]["namespace"] = namespace
        connection.create(Collection(document["apiVersion"], _PLURALS[document["kind"]], namespace), document)


def require_account(kubernetes: Kubernetes, namespace: str) -> None:
    """The account of coordinators may do there what they do, and nothing else that is asked here."""
    assert _may(kubernetes, namespace, "create", "pods")
    for verb, resource in (("get", "secrets"), ("update", "pods"), ("delete", "deployments"), ("list", "configmaps")):
        assert not _may(kubernetes, namespace, verb, resource), f"{verb} {resource}"


def _may(kubernetes: Kubernetes, namespace: str, verb: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{ACCOUNT}",
            "resourceAttributes": {"namespace": namespace, "verb": verb, "resource": resource},
        },
    }
    answer = kubernetes.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
