"""An operator touches nothing of others: objects that users name like their jobs and clusters. No pod runs here."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, metadata_of
from headrace.kubernetes_operator.resources.kinds import CLUSTER, JOB, Kind
from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.foreign_objects import ForeignObjects, colliding, essence
from support.operator.flow_job import SMALL
from support.operator.operators import Resources, operators
from support.operator.page import shown_resources
from support.processes.running import wait_until

SEEDS, PHASES = 10, 3
SPEC: dict[str, Any] = {"image": "headrace:1", "ledger": "s3://bucket/flights"}


@pytest.fixture(scope="module")
def resources(
    kubernetes: Kubernetes, connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Resources]:
    """A namespace with an operator."""
    folder = tmp_path_factory.mktemp("o")
    with kubernetes.namespace("operated") as namespace, operators(kubernetes, namespace, folder) as running:
        connection.create(
            Collection("v1", "serviceaccounts", namespace), {"metadata": {"name": "headrace-coordinator"}}
        )
        running.start("only")
        found = Resources(connection, namespace, running)
        yield found
        found.remove_all()


def test_the_job_of_the_page_keeps_the_config_map_and_secret_of_its_own_name(
    resources: Resources, connection: Connection
) -> None:
    """With a cluster of its own, which has the job's name, too."""
    shown = shown_resources()[JOB.name]
    name, place = shown["metadata"]["name"], shown["spec"]["pipelineFrom"]["configMap"]
    maps, secrets = (Collection("v1", plural, resources.namespace) for plural in ("configmaps", "secrets"))
    own = {
        maps: {"metadata": {"name": place["name"]}, "data": {place["key"]: SMALL}},
        secrets: {"metadata": {"name": name, "labels": {"headrace.dev/variables": "true"}}, "stringData": {"A": "1"}},
    }
    before = {each: essence(connection.create(each, document)) for each, document in own.items()}
    spec = {key: each for key, each in shown["spec"].items() if key != "cluster"}
    spec |= {"ownCluster": SPEC, "variablesFrom": {"secret": name}, "onDelete": "cancel"}
    for _ in range(2):
        resources.apply(JOB, name, spec)
        wait_until(lambda: _deployed(resources, connection) == [name], "its cluster is applied")
        resources.wait_status(JOB, name, phase="Submitting")
        resources.delete(JOB, name)
        resources.wait_gone(JOB, name)
        assert _deployed(resources, connection) == []
    assert {each: essence(connection.get(each, name)) for each in own} == before
    left = {metadata_of(each).name for each in connection.list(secrets).items}
    assert left == {name, f"{name}-headrace", f"{name}-tls", f"{name}-authority"}


def test_clusters_and_jobs_of_names_that_are_taken_say_whose_they_are_and_go(
    resources: Resources, connection: Connection
) -> None:
    foreign = ForeignObjects(connection, resources.namespace)
    for kind, name in (*colliding("postgres"), ("Service", "orders"), ("Secret", "orders-work")):
        assert foreign.make(kind, name)
    resources.apply(CLUSTER, "postgres", SPEC)
    resources.apply(JOB, "orders", {"pipeline": SMALL, "ownCluster": SPEC})
    message = resources.wait_condition(CLUSTER, "postgres", "Degraded", "NotApplied")
    assert "Deployment postgres" in message
    assert "belongs to postgres-operator" in message
    message = resources.wait_condition(JOB, "orders", "Degraded", "Delayed")
    assert "Service orders" in message
    assert "belongs to postgres-operator" in message
    for resource, name in ((CLUSTER, "postgres"), (JOB, "orders")):
        resources.delete(resource, name)
        resources.wait_gone(resource, name)
    foreign.require_untouched()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, SEEDS))])
@pytest.mark.parametrize("kind", [CLUSTER, JOB], ids=lambda kind: kind.name)
def test_objects_that_appear_while_an_operator_works_stay_as_they_are(
    resources: Resources, connection: Connection, kind: Kind, seed: int
) -> None:
    """Amid creation, upgrade and deletion. Most come to a name that is free, the others replace an object."""
    foreign, drawn = ForeignObjects(connection, resources.namespace), random.Random(seed)
    name = f"{kind.plural}-{seed}"
    names = [each for each in colliding(name) if each[1] != f"{name}-tls"]
    drawn.shuffle(names)
    for number in range(PHASES):
        spec = {**SPEC, "image": f"headrace:{number}"}
        if number < PHASES - 1:
            resources.apply(kind, name, spec if kind == CLUSTER else {"pipeline": SMALL, "ownCluster": spec})
        else:
            resources.delete(kind, name)
        for each in names[number::PHASES]:
            if not foreign.make(*each) and each[0] != "Deployment" and drawn.random() < 0.5:
                foreign.replace(*each)
        if number < PHASES - 1:
            resources.wait(functools.partial(_is_tried, resources, kind, name), "it was tried", kind, name)
    resources.wait_gone(kind, name)
    assert len(list(foreign)) > len(names) / 2
    foreign.require_untouched()


def test_a_job_and_a_cluster_of_one_name_do_not_touch_each_other(resources: Resources, connection: Connection) -> None:
    resources.apply(CLUSTER, "both", SPEC)
    wait_until(lambda: _deployed(resources, connection) == ["both"], "its cluster is applied")
    resources.wait(lambda: bool(resources.status(CLUSTER, "both").get("applied")), "it is noted", CLUSTER, "both")
    resources.apply(JOB, "both", {"pipeline": SMALL, "ownCluster": SPEC, "onDelete": "cancel"})
    assert "belongs to HeadraceCluster both" in resources.wait_condition(JOB, "both", "Degraded", "NoCluster")
    foreign = ForeignObjects(connection, resources.namespace)
    before = {each: essence(foreign.read(*each)) for each in foreign.others() if each[1].startswith("both")}
    resources.delete(JOB, "both")
    resources.wait_gone(JOB, "both")
    assert {each: essence(foreign.read(*each)) for each in before} == before
    resources.delete(CLUSTER, "both")
    resources.wait_gone(CLUSTER, "both")


def _is_tried(resources: Resources, kind: Kind, name: str) -> bool:
    """Whether the operator has applied its cluster, or was refused."""
    return bool(resources.status(kind, name).get("applied")) or bool(resources.condition(kind, name, "Degraded"))


def _deployed(resources: Resources, connection: Connection) -> list[str]:
    """Deployments of headrace."""
    collection = Collection("apps/v1", "deployments", resources.namespace)
    return [metadata_of(each).name for each in connection.list(collection, labels="headrace.dev/cluster").items]
