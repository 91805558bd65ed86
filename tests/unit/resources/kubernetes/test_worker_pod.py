"""The pod of a worker: the template, and what differs from worker to worker."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from headrace.core.errors import UserError
from headrace.resources.kubernetes.worker_pod import Owner, worker_pod

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "payments", "app.kubernetes.io/name": "theirs"}, "annotations": {"note": "1"}},
    "spec": {
        "restartPolicy": "Always",
        "nodeSelector": {"disk": "fast"},
        "containers": [
            {"name": "theirs", "image": "sidecar:1"},
            {"name": "worker", "image": "headrace:1", "args": ["replaced"], "env": [{"name": "A", "value": "b"}]},
        ],
    },
}
OWNER = Owner("apps/v1", "Deployment", "flights", "0c0ffee0")


def test_a_worker_is_its_template_with_its_name_and_arguments() -> None:
    before = deepcopy(TEMPLATE)
    arguments = ["headrace-worker", "--id", "flights-w3-1"]
    pod = worker_pod(TEMPLATE, "flights-w3-1", arguments, cluster="flights", term=3, owner=OWNER)
    assert before == TEMPLATE
    assert (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) == ("v1", "Pod", "flights-w3-1")
    assert pod["metadata"]["labels"] == {
        "team": "payments",
        "app.kubernetes.io/name": "headrace",
        "app.kubernetes.io/instance": "flights",
        "app.kubernetes.io/managed-by": "headrace",
        "app.kubernetes.io/component": "worker",
        "headrace.dev/cluster": "flights",
    }
    assert pod["metadata"]["annotations"] == {"note": "1", "headrace.dev/term": "3"}
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "flights",
            "uid": "0c0ffee0",
            "controller": False,
            "blockOwnerDeletion": False,
        }
    ]
    spec = pod["spec"]
    assert spec["restartPolicy"] == "Never", "a worker id is used once"
    assert spec["nodeSelector"] == {"disk": "fast"}
    theirs, worker = spec["containers"]
    assert theirs == {"name": "theirs", "image": "sidecar:1"}
    assert worker["args"] == ["headrace-worker", "--id", "flights-w3-1"]
    assert worker["env"] == [{"name": "A", "value": "b"}]


def test_a_template_without_the_workers_container_is_refused() -> None:
    with pytest.raises(UserError, match="no container named 'worker'"):
        worker_pod({"spec": {"containers": [{"name": "main"}]}}, "w", [], cluster="c", term=1, owner=None)
