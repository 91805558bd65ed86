"""What headrace has not made it neither changes nor deletes, whatever its name. On a real API server, without pods."""

from __future__ import annotations

import base64
import contextlib
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.cluster_secret import in_secrets
from headrace.core.errors import ExternalError, UserError
from headrace.deployment.kubernetes.cluster_file import cluster_spec
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.deployer import Deployer
from headrace.deployment.kubernetes.manifests import WORKERS_FILE, deployment, secret
from headrace.deployment.kubernetes.own_objects import OwnObjects
from headrace.kubernetes.access import find_access
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import metadata_of, text_at, value_at
from headrace.kubernetes.ownership import MANAGED_BY, MANAGER, Claim
from headrace.leadership.kubernetes_election import KubernetesElector, LeaseAddress
from headrace.leadership.lease_record import new_lease
from headrace.resources.kubernetes.worker_pods import WorkerPods, read_workers_file
from headrace.resources.worker_order import WorkerOrder
from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.foreign_objects import KINDS, ForeignObjects, colliding, essence
from support.kubernetes.interrupted import InterruptedConnection
from support.processes.running import wait_until

NAME = "flights"
USED = [
    ("Deployment", NAME),
    ("ConfigMap", f"{NAME}-headrace"),
    ("Service", NAME),
    ("Service", f"{NAME}-control"),
    ("PodDisruptionBudget", NAME),
    ("NetworkPolicy", NAME),
    ("NetworkPolicy", f"{NAME}-workers"),
    ("Secret", f"{NAME}-headrace"),
    ("Secret", f"{NAME}-authority"),
    ("Lease", NAME),
]
"""Names that a cluster needs for itself. Those that it takes from others are tested apart."""
TRIED_AT_EACH_COMMIT = [("Deployment", NAME), ("ConfigMap", f"{NAME}-headrace"), ("Secret", f"{NAME}-headrace")]


@pytest.fixture
def connection(kubernetes: Kubernetes) -> Iterator[Connection]:
    opened = kubernetes.connection()
    yield opened
    opened.close()


@pytest.fixture
def foreign(connection: Connection, namespace: str) -> ForeignObjects:
    return ForeignObjects(connection, namespace)


def cluster_in(namespace: str, **spec: object) -> KubernetesCluster:
    document = {"image": "headrace:1", "ledger": "s3://b", "networkPolicy": {"enabled": True}, **spec}
    return KubernetesCluster(NAME, namespace, cluster_spec(document, "cluster.yaml"))


def test_each_name_that_is_taken_refuses_the_cluster_before_anything_is_made(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    deployer = Deployer(connection)
    for kind, name in USED:
        assert foreign.make(kind, name)
        with pytest.raises(UserError, match=f"{kind} {name} .* belongs to postgres-operator"):
            deployer.apply(cluster_in(namespace))
        assert foreign.others() == []
        if kind == "Deployment":
            with pytest.raises(UserError, match="belongs to postgres-operator"):
                deployer.stop(NAME, namespace, with_secret=True)
            assert deployer.view(NAME, namespace).other_owner == "postgres-operator"
        else:
            assert not deployer.stop(NAME, namespace, with_secret=True)
        foreign.require_untouched()
        foreign.delete(kind, name)


def test_objects_of_every_kind_outlive_a_cluster_that_has_none_of_their_names(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    for kind, name in colliding(NAME):
        if (kind, name) not in USED and name != f"{NAME}-tls":
            assert foreign.make(kind, name)
    assert len(list(foreign)) >= 30
    assert in_secrets(connection, NAME, namespace).token is None, "the Secret of the name is somebody else's"
    deployer = Deployer(connection)
    deployer.apply(cluster_in(namespace))
    deployer.apply(cluster_in(namespace, disruptionBudget=False, networkPolicy={"enabled": False}))
    foreign.require_untouched()
    assert deployer.stop(NAME, namespace, with_secret=True)
    foreign.require_untouched()
    wait_until(lambda: foreign.others() == [], "nothing of the cluster is left")


@pytest.mark.parametrize("phase", ["creation", "upgrade", "deletion"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*each, marks=() if each in TRIED_AT_EACH_COMMIT else pytest.mark.full, id=" ".join(each))
        for each in (*USED, ("Secret", f"{NAME}-tls"))
    ],
)
def test_what_takes_a_name_after_any_request_stays_as_it_is(
    kubernetes: Kubernetes, connection: Connection, namespace: str, *, kind: str, name: str, phase: str
) -> None:
    """After the first request about the object, then after the second, until there are no more."""
    access = find_access(kubernetes.environment)
    for number in itertools.count(1):
        foreign, deployer = ForeignObjects(connection, namespace), Deployer(connection)
        if phase != "creation":
            deployer.apply(cluster_in(namespace))
        own = InterruptedConnection(
            access, KINDS[kind][1], name, number, functools.partial(foreign.replace, kind, name)
        )
        # Kubernetes deletes what belongs to a Deployment that is gone, as often as it is applied
        with contextlib.suppress(UserError, ExternalError):
            if phase == "deletion":
                Deployer(own).stop(NAME, namespace, with_secret=True)
            else:
                Deployer(own).apply(cluster_in(namespace, image="headrace:2"))
        own.close()
        foreign.require_untouched()
        with contextlib.suppress(UserError):
            deployer.stop(NAME, namespace, with_secret=True)
        foreign.require_untouched()
        if not own.was_interrupted:
            assert number > 1
            return
        foreign.delete(kind, name)
        wait_until(lambda: foreign.others() == [], "nothing of the cluster is left")  # noqa: B023 - called at once


def test_a_change_goes_to_the_object_that_was_read(
    kubernetes: Kubernetes, connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    Deployer(connection).apply(cluster_in(namespace))
    name = f"{NAME}-headrace"
    replace = functools.partial(foreign.replace, "Secret", name)
    own = InterruptedConnection(find_access(kubernetes.environment), "secrets", name, 1, replace)
    OwnObjects(own, namespace, Claim(NAME)).patch("Secret", name, {"metadata": {"labels": {"theirs": "no"}}})
    assert own.was_interrupted
    own.close()
    foreign.require_untouched()


def test_what_replaces_an_object_of_the_cluster_outlives_it(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    deployer = Deployer(connection)
    deployer.apply(cluster_in(namespace))
    replaced = [each for each in USED if each[0] not in {"Deployment", "Lease"}]
    for kind, name in replaced:
        connection.delete(foreign.collection(kind), name)
        assert foreign.make(kind, name)
    with pytest.raises(UserError, match="belongs to postgres-operator"):
        deployer.apply(cluster_in(namespace))
    assert deployer.stop(NAME, namespace, with_secret=True)
    foreign.require_untouched()


def test_a_field_that_a_later_description_does_not_name_is_removed(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    """The first apply creates, and the fields of that count as applied."""
    deployer = Deployer(connection)
    deployer.apply(cluster_in(namespace, env={"A": "1", "B": "2"}))
    deployer.apply(cluster_in(namespace, env={"A": "1"}))
    found = connection.get(foreign.collection("Deployment"), NAME)
    containers = value_at(found, "spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    (container,) = containers
    assert isinstance(container, dict)
    names = [text_at(each, "name") for each in container["env"]]  # type: ignore[union-attr]
    assert "A" in names
    assert "B" not in names
    entries = value_at(found, "metadata", "managedFields")
    assert isinstance(entries, list)
    operations = {text_at(each, "operation") for each in entries if text_at(each, "manager") == MANAGER}
    assert operations == {"Apply"}


def test_a_cluster_of_an_earlier_version_goes_on_with_its_key(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    """It called its Secret by the cluster's name, and applied its Deployment without creating it first."""
    cluster, deployer = cluster_in(namespace), Deployer(connection)
    earlier = secret(cluster, token="the token", key="the key")
    earlier["metadata"]["name"] = NAME
    connection.create(foreign.collection("Secret"), earlier)
    assert in_secrets(connection, NAME, namespace).token == "the token"
    connection.apply(foreign.collection("Deployment"), NAME, deployment(cluster), manager=MANAGER)
    deployer.apply(cluster)
    held = connection.get(foreign.collection("Secret"), f"{NAME}-headrace")
    texts = {name: base64.b64decode(text_at(held, "data", name) or "").decode() for name in ("token", "key")}
    assert texts == {"token": "the token\n", "key": "the key\n"}
    assert deployer.stop(NAME, namespace, with_secret=False)
    assert foreign.read("Secret", NAME), "its pods may have mounted it"
    assert deployer.stop(NAME, namespace, with_secret=True)
    wait_until(lambda: foreign.others() == [], "nothing of the cluster is left")


def test_a_certificate_of_somebody_else_that_lacks_a_file_is_refused(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    assert foreign.make("Secret", f"{NAME}-tls")
    with pytest.raises(UserError, match=r"has no tls\.crt, tls\.key, ca\.crt"):
        Deployer(connection).apply(cluster_in(namespace))
    assert foreign.others() == []
    foreign.require_untouched()


def test_a_candidate_writes_to_no_lease_of_another_program(
    kubernetes: Kubernetes, connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    foreign.make("Lease", NAME)
    address = LeaseAddress(namespace, NAME)
    elector = KubernetesElector(address, kubernetes.environment, 3_000)
    with pytest.raises(UserError, match="belongs to postgres-operator, held by postgres-0"):
        elector.campaign(lambda _event: None)
    elector.close()
    foreign.require_untouched()
    foreign.delete("Lease", NAME)
    # one of an earlier version has no label, and the API server knows its writer
    document = {"metadata": {"name": NAME}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    connection.create(foreign.collection("Lease"), document)
    elector = KubernetesElector(address, kubernetes.environment, 3_000)
    elector.campaign(lambda _event: None)
    wait_until(elector.is_elected, "it is elected")
    lease = connection.get(foreign.collection("Lease"), NAME)
    assert metadata_of(lease).labels == {MANAGED_BY: MANAGER}
    elector.close()


def test_a_cluster_keeps_off_the_lease_of_another_election_of_headrace(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    """Such as the operator's own."""
    lease = new_lease(NAME, "operator-0", 10_000, "2026-01-01T00:00:00.000000Z")
    before = connection.create(foreign.collection("Lease"), lease)
    with pytest.raises(UserError, match=f"Lease {NAME} .* belongs to headrace"):
        Deployer(connection).apply(cluster_in(namespace))
    assert not Deployer(connection).stop(NAME, namespace, with_secret=True)
    assert connection.get(foreign.collection("Lease"), NAME) == before
    assert foreign.others() == [("Lease", NAME)]


def test_the_cluster_of_a_resource_is_not_stopped_by_commands_and_other_resources(
    connection: Connection, namespace: str, foreign: ForeignObjects
) -> None:
    """All of its objects have the labels, and only the Deployment has a controller."""
    foreign.make("ConfigMap", "job")
    uid = metadata_of(foreign.read("ConfigMap", "job")).uid
    deployer, cluster = Deployer(connection), cluster_in(namespace)
    deployer.apply(cluster, Claim(NAME, uid))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "job", "uid": uid, "controller": True}
    note = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME, "ownerReferences": [owner]}}
    deployer.note(note, namespace, claim=Claim(NAME, uid), manager="operator")
    before = {each: essence(foreign.read(*each)) for each in foreign.others()}
    assert len(before) == len(USED)
    for taker in (Claim(NAME), Claim(NAME, "another job")):
        with pytest.raises(UserError, match="belongs to ConfigMap job"):
            deployer.stop(NAME, namespace, with_secret=True, claim=taker)
        with pytest.raises(UserError, match="belongs to ConfigMap job"):
            deployer.apply(cluster, taker)
        assert not deployer.has_begun(NAME, namespace, taker)
    assert {each: essence(foreign.read(*each)) for each in foreign.others()} == before


def test_a_pod_of_somebody_else_is_no_worker(
    connection: Connection, kubernetes: Kubernetes, namespace: str, foreign: ForeignObjects, tmp_path: Path
) -> None:
    Deployer(connection).apply(cluster_in(namespace))
    found = connection.get(foreign.collection("ConfigMap"), f"{NAME}-headrace")
    (tmp_path / WORKERS_FILE).write_text(text_at(found, "data", WORKERS_FILE) or "")
    order = WorkerOrder("flights-control:8481", 1)
    workers = WorkerPods(kubernetes.connection(), read_workers_file(tmp_path / WORKERS_FILE), order, term=1)
    pod = {"metadata": {"name": "flights-w1-1"}, "spec": {"containers": [{"name": "db", "image": "postgres:17"}]}}
    kubernetes.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    with pytest.raises(ExternalError, match="there is a pod flights-w1-1"):
        workers.start("flights-w1-1")
    workers.release("flights-w1-1")
    assert not metadata_of(kubernetes.api.get(f"/api/v1/namespaces/{namespace}/pods/flights-w1-1")).is_deleted
    workers.close()
