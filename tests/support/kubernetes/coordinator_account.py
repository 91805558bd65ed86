"""The account of coordinators as users make it: the objects of `deploy/k8s/base`, in a namespace."""

from __future__ import annotations

from ruamel.yaml import YAML

from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
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
