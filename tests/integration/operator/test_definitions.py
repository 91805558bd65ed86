"""The schemas of the custom resources on a real API server: each field with values that it accepts and refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from headrace.kubernetes.connection import Connection, RejectedError
from headrace.kubernetes_operator.definitions import DEFINITIONS, structural_schema
from headrace.kubernetes_operator.resources.kinds import API, CLUSTER, JOB, SNAPSHOT, Kind
from headrace.kubernetes_operator.shell.resource_store import collection_of
from support.kubernetes.control.kubernetes import Kubernetes

Spec = dict[str, Any]
PODS = {
    "cpu": "500m",
    "memory": "1Gi",
    "ephemeralStorage": "10Gi",
    "podTemplate": {"spec": {"tolerations": [{"key": "spot"}]}},
}
WHOLE_CLUSTER: Spec = {
    "image": "you/headrace:1",
    "imagePullPolicy": "IfNotPresent",
    "ledger": "s3://bucket/flights",
    "serviceAccount": "headrace-coordinator",
    "coordinator": {"replicas": 2, **PODS},
    "workers": {"slots": 2, "min": 0, "max": 4, "idle": "1m30s", **PODS},
    "env": {"AWS_REGION": "eu-central-1"},
    "tls": False,
    "afterEnd": "5m",
    "attendant": {"cpu": "100m", "memory": "1Gi"},
    "disruptionBudget": False,
    "networkPolicy": {
        "enabled": True,
        "clients": [{"podSelector": {"matchLabels": {"app": "x"}}}],
        "egress": [{"ports": [{"port": 9092}]}],
    },
}
WHOLE_JOB: Spec = {
    "pipelineFrom": {"configMap": {"name": "flights", "key": "pipeline.yaml"}},
    "variablesFrom": {"secret": "flights"},
    "ownCluster": WHOLE_CLUSTER,
    "parallelism": 2,
    "maxParallelism": 64,
    "state": "suspended",
    "upgradeMode": "last-state",
    "savepointFolder": "s3://bucket/savepoints",
    "initialSavepoint": "s3://bucket/savepoints/first",
    "allowDroppedState": True,
    "acceptNewTopics": ["flights"],
    "restartNonce": 1,
    "savepointNonce": 2,
    "snapshots": {"every": "1h", "keep": 5},
    "onDelete": "savepoint",
}
WHOLE_SNAPSHOT: Spec = {"job": "flights", "folder": "s3://bucket/snapshots", "disposal": "delete"}
WRONG_PODS = {"cpu": "much", "memory": "0.5 Gi", "ephemeralStorage": "much", "podTemplate": "none"}
WRONG_CLUSTER: Mapping[str, object] = {
    "image": "",
    "imagePullPolicy": "Sometimes",
    "ledger": "",
    "serviceAccount": 7,
    "coordinator": [],
    "coordinator.replicas": 0,
    "workers": 3,
    "workers.slots": 257,
    "workers.min": -1,
    "workers.max": 0,
    "workers.idle": "a while",
    "env": {"A": 1},
    "tls": "perhaps",
    "afterEnd": "soon",
    "attendant": 1,
    "attendant.cpu": "much",
    "attendant.memory": "0.5 Gi",
    "disruptionBudget": "maybe",
    "networkPolicy": True,
    "networkPolicy.enabled": "yes",
    "networkPolicy.clients": "everybody",
    "networkPolicy.egress": [443],
    **{f"{part}.{name}": value for part in ("coordinator", "workers") for name, value in WRONG_PODS.items()},
}
WRONG_JOB: Mapping[str, object] = {
    "pipelineFrom": "flights",
    "pipelineFrom.configMap": {},
    "pipelineFrom.configMap.name": "Not A Name",
    "pipelineFrom.configMap.key": "",
    "variablesFrom": {},
    "variablesFrom.secret": "Not A Name",
    "ownCluster": {"image": "you/headrace:1"},
    **{f"ownCluster.{path}": value for path, value in WRONG_CLUSTER.items()},
    "parallelism": 0,
    "maxParallelism": 32_769,
    "state": "paused",
    "upgradeMode": "brave",
    "savepointFolder": "",
    "initialSavepoint": "",
    "allowDroppedState": "perhaps",
    "acceptNewTopics": "flights",
    "restartNonce": -1,
    "savepointNonce": "x",
    "snapshots": {},
    "snapshots.every": 10,
    "snapshots.keep": 0,
    "onDelete": "nothing",
    # beside what the whole spec has in their place
    "pipeline": "name: flights",
    "cluster": "session",
}
WRONG_SNAPSHOT: Mapping[str, object] = {"job": "Not A Name", "folder": "", "disposal": "shred"}
KINDS = {
    CLUSTER.name: (CLUSTER, WHOLE_CLUSTER, WRONG_CLUSTER),
    JOB.name: (JOB, WHOLE_JOB, WRONG_JOB),
    SNAPSHOT.name: (SNAPSHOT, WHOLE_SNAPSHOT, WRONG_SNAPSHOT),
}
CASES = [(name, path) for name, (_, _, wrong) in KINDS.items() for path in wrong]


@pytest.fixture(scope="module")
def namespace(kubernetes: Kubernetes) -> Iterator[str]:
    """One for all tests of this file, which store next to nothing."""
    with kubernetes.namespace() as name:
        yield name


def create(connection: Connection, namespace: str, kind: Kind, spec: Spec) -> Mapping[str, Any]:
    """As the API server would store it."""
    document = {"apiVersion": API, "kind": kind.name, "metadata": {"name": "flights"}, "spec": spec}
    created: Mapping[str, Any] = connection.create(collection_of(kind, namespace), document, dry_run=True)
    return created


def changed(spec: Spec, path: str, value: object) -> Spec:
    """A copy of the spec with another value at a dotted path."""
    copied = deepcopy(spec)
    *above, last = path.split(".")
    place = copied
    for name in above:
        place = place[name]
    place[last] = value
    return copied


def fields(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted paths of all fields of a schema."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from fields(inner, f"{prefix}{name}.")


@pytest.mark.parametrize("name", KINDS)
def test_a_spec_with_every_field_is_accepted_and_stored_as_it_is(
    connection: Connection, namespace: str, name: str
) -> None:
    kind, whole, _ = KINDS[name]
    assert create(connection, namespace, kind, whole)["spec"] == whole


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        (CLUSTER.name, {"image": "you/headrace:1", "ledger": "s3://bucket/flights"}),
        (JOB.name, {"pipeline": "name: flights", "cluster": "session"}),
        (JOB.name, {"pipeline": {"name": "flights", "sources": {}}, "cluster": "session"}),
        (SNAPSHOT.name, {"job": "flights"}),
    ],
)
def test_the_least_spec_is_accepted(connection: Connection, namespace: str, name: str, spec: Spec) -> None:
    assert create(connection, namespace, KINDS[name][0], spec)["spec"] == spec


@pytest.mark.parametrize(("name", "path"), CASES, ids=[f"{name}.{path}" for name, path in CASES])
def test_a_wrong_value_of_a_field_is_refused(connection: Connection, namespace: str, name: str, path: str) -> None:
    kind, whole, wrong = KINDS[name]
    with pytest.raises(RejectedError):
        create(connection, namespace, kind, changed(whole, path, wrong[path]))


def test_each_field_has_a_right_and_a_wrong_value() -> None:
    for definition in DEFINITIONS:
        _, whole, wrong = KINDS[definition.kind.name]
        paths = set(fields(structural_schema(definition.spec)))
        assert set(wrong) == paths
        assert {path for path in paths if path.partition(".")[0] in whole} | {"pipeline", "cluster"} >= paths


@pytest.mark.parametrize("missing", ["pipelineFrom", "ownCluster"])
def test_a_job_has_a_pipeline_and_a_cluster(connection: Connection, namespace: str, missing: str) -> None:
    spec = {name: value for name, value in WHOLE_JOB.items() if name != missing}
    with pytest.raises(RejectedError):
        create(connection, namespace, JOB, spec)


def test_what_a_resource_is_about_cannot_be_changed(
    connection: Connection, namespace: str, kubernetes: Kubernetes
) -> None:
    jobs, snapshots = collection_of(JOB, namespace), collection_of(SNAPSHOT, namespace)
    document = {"apiVersion": API, "kind": JOB.name, "metadata": {"name": "flights"}}
    connection.create(jobs, document | {"spec": {"pipeline": "name: flights", "cluster": "session"}})
    with pytest.raises(RejectedError, match="a job stays in its own cluster"):
        connection.patch(jobs, "flights", {"spec": {"cluster": None, "ownCluster": WHOLE_CLUSTER}})
    document = {"apiVersion": API, "kind": SNAPSHOT.name, "metadata": {"name": "one"}}
    connection.create(snapshots, document | {"spec": {"job": "flights"}})
    with pytest.raises(RejectedError, match="a snapshot is taken once"):
        connection.patch(snapshots, "one", {"spec": {"folder": "s3://bucket/other"}})
    listed = kubernetes.kubectl("-n", namespace, "get", "headrace")
    assert "headracejob.headrace.dev/flights" in listed
    assert "STATE" in kubernetes.kubectl("-n", namespace, "get", "hrj")
