"""The custom resource definitions of `deploy/k8s/operator` in a test's API server."""

from __future__ import annotations

from functools import partial

from ruamel.yaml import YAML

from headrace.core.errors import ExternalError
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, documents_at, text_at
from headrace.kubernetes_operator.resources.kinds import KINDS, Kind
from headrace.kubernetes_operator.shell.resource_store import collection_of
from support.processes.running import wait_until
from support.repository import ROOT

DEFINITIONS = Collection("apiextensions.k8s.io/v1", "customresourcedefinitions")
FOLDER = ROOT / "deploy/k8s/operator/crds"


def install_definitions(connection: Connection) -> None:
    """Applies them, and waits until the API server serves them. Test processes may do so at the same time."""
    for path in sorted(FOLDER.iterdir()):
        document = YAML(typ="safe").load(path.read_text())
        connection.apply(DEFINITIONS, document["metadata"]["name"], document, manager="tests")
    for kind in KINDS:
        wait_until(partial(_is_served, connection, kind), f"{kind.name} is served")


def _is_served(connection: Connection, kind: Kind) -> bool:
    conditions = documents_at(connection.get(DEFINITIONS, kind.definition), "status", "conditions")
    if not any(text_at(each, "type") == "Established" and text_at(each, "status") == "True" for each in conditions):
        return False
    try:
        connection.list(collection_of(kind, "default"))
    except ExternalError:
        # the server takes a moment more to serve what it has established
        return False
    return True
