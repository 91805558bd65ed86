"""The operator's own objects: admitted at the restricted Pod Security level, with no more rights than it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.kubernetes.connection import Connection, ForbiddenError, open_connection
from headrace.kubernetes.documents import Collection, text_at
from headrace.kubernetes_operator.resources.kinds import JOB
from headrace.kubernetes_operator.shell.resource_store import collection_of
from support.kubernetes.control.kubernetes import Kubernetes
from support.operator.account import apply_operator, operator_kubeconfig
from support.processes.running import wait_until


def test_its_pods_are_admitted_at_the_restricted_level(connection: Connection, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    connection.patch(Collection("v1", "namespaces"), namespace, {"metadata": {"labels": labels}})
    apply_operator(connection, namespace, with_deployment=True)
    pods = Collection("v1", "pods", namespace)
    wait_until(lambda: len(connection.list(pods).items) == 2, "two replicas")
    accounts = {text_at(each, "spec", "serviceAccountName") for each in connection.list(pods).items}
    assert accounts == {"headrace-operator"}


def test_it_may_do_what_it_has_to_and_nothing_else(
    connection: Connection, namespace: str, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    apply_operator(connection, namespace)
    own = open_connection({}, kubeconfig=operator_kubeconfig(kubernetes, namespace, tmp_path))
    assert own.list(collection_of(JOB, namespace)).items == ()
    for api, plural in (("v1", "secrets"), ("v1", "services"), ("v1", "configmaps"), ("apps/v1", "deployments")):
        with pytest.raises(ForbiddenError):
            own.list(Collection(api, plural, namespace))
    with pytest.raises(ForbiddenError):
        own.create(Collection("v1", "pods", namespace), {"metadata": {"name": "mine"}, "spec": {"containers": []}})
    with pytest.raises(ForbiddenError):
        own.delete(Collection("v1", "secrets", namespace), "any")
    with pytest.raises(ForbiddenError):
        own.delete(collection_of(JOB, namespace), "any")
    with pytest.raises(ForbiddenError):
        own.list(collection_of(JOB, "default"))
    own.close()
