"""A cluster's objects on a real API server: what it admits, what belongs to what, what stays. No pod runs here."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from headrace.client.cluster_secret import ClusterAccess, with_secrets
from headrace.core.errors import ExternalError
from headrace.deployment.kubernetes.cluster_file import cluster_spec
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.deployer import Deployer
from headrace.deployment.kubernetes.manifests import WORKERS_FILE, worker_template
from headrace.kubernetes.connection import Connection, ForbiddenError, open_connection
from headrace.kubernetes.documents import Collection, metadata_of, text_at, value_at
from headrace.kubernetes.transport import Request
from headrace.resources.driver import WorkerPhase, WorkerReport
from headrace.resources.kubernetes.worker_pods import WorkerPods, read_workers_file
from headrace.resources.worker_order import WorkerOrder
from headrace.tls import issuing
from headrace.tls.files import NamedServer
from headrace.tls.issuing import is_due
from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.pods.coordinator_account import ACCOUNT, make_account
from support.processes.running import wait_until
from support.repository import ROOT

PAGE = ROOT / "docs/kubernetes.md"
CLIENT_RIGHTS = (
    ([""], ["configmaps", "services", "secrets"], ["get", "create", "patch", "delete"]),
    (["apps"], ["deployments"], ["get", "create", "patch", "delete"]),
    (["coordination.k8s.io"], ["leases"], ["get", "delete"]),
    ([""], ["pods"], ["list"]),
)
"""What the page says that starting clusters takes, without budgets and policies."""

NOTHING = ClusterAccess(None, None)
NOW = datetime.now(UTC)


def decoded(field: object) -> str:
    return base64.b64decode(str(field)).decode()


class AppliedError(Exception):
    """Everything is applied, and no coordinator leads."""


@pytest.fixture
def connection(kubernetes: Kubernetes) -> Iterator[Connection]:
    opened = kubernetes.connection()
    yield opened
    opened.close()


@pytest.fixture
def namespace(kubernetes: Kubernetes, connection: Connection) -> Iterator[str]:
    """One at the restricted Pod Security level, with the account of coordinators."""
    with kubernetes.namespace("data") as name:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        connection.patch(Collection("v1", "namespaces"), name, {"metadata": {"labels": labels}})
        make_account(connection, name)
        yield name


def cluster_in(namespace: str, **spec: object) -> KubernetesCluster:
    document = {"image": "headrace:1", "ledger": "s3://bucket/flights", **spec}
    return KubernetesCluster("flights", namespace, cluster_spec(document, "cluster.yaml"))


def apply(connection: Connection, cluster: KubernetesCluster, until: str = "coordinators start") -> None:
    """Starts it, until a line of progress contains the text: without nodes no coordinator leads."""

    def report(line: str) -> None:
        if until in line:
            raise AppliedError

    with pytest.raises(AppliedError):
        Deployer(connection).start(cluster, report)


def test_everything_is_admitted_at_the_restricted_level(connection: Connection, namespace: str) -> None:
    apply(connection, cluster_in(namespace, coordinator={"replicas": 2}))
    pods = Collection("v1", "pods", namespace)
    wait_until(lambda: len(connection.list(pods).items) == 2, "two coordinators")
    deployer = Deployer(connection)
    view = deployer.view("flights", namespace)
    assert set(view.coordinators.values()) == {"Pending"}
    assert (view.exists, view.workers, view.leader) == (True, {}, None)


def protections_of(connection: Connection, namespace: str) -> list[tuple[str, str]]:
    """Budgets and policies that are there, as plural and name."""
    kinds = {"poddisruptionbudgets": "policy/v1", "networkpolicies": "networking.k8s.io/v1"}
    return [
        (plural, metadata_of(each).name)
        for plural, api in kinds.items()
        for each in connection.list(Collection(api, plural, namespace)).items
    ]


def test_budget_and_policies_come_and_go_with_the_description(connection: Connection, namespace: str) -> None:
    (example,) = re.findall(r"^```yaml\n(networkPolicy:.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    apply(connection, cluster_in(namespace, coordinator={"replicas": 2}, **YAML(typ="safe").load(example)))
    every = [
        ("poddisruptionbudgets", "flights"),
        ("networkpolicies", "flights"),
        ("networkpolicies", "flights-workers"),
    ]
    assert protections_of(connection, namespace) == every
    budgets = Collection("policy/v1", "poddisruptionbudgets", namespace)

    def is_counted() -> bool:
        status = value_at(connection.get(budgets, "flights"), "status")
        return isinstance(status, dict) and status.get("expectedPods") == 2

    wait_until(is_counted, "the budget is of both coordinators")
    apply(connection, cluster_in(namespace))
    assert protections_of(connection, namespace) == every[:1]
    apply(connection, cluster_in(namespace, disruptionBudget=False))
    assert protections_of(connection, namespace) == []


def test_a_rule_that_is_none_is_refused_with_its_field(connection: Connection, namespace: str) -> None:
    cluster = cluster_in(namespace, networkPolicy={"enabled": True, "egress": [{"too": []}]})
    with pytest.raises(ExternalError, match=r"spec\.egress\[2\]\.too"):
        Deployer(connection).apply(cluster)


def test_an_account_without_rights_for_what_is_off_starts_and_stops_a_cluster(
    connection: Connection, namespace: str, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    accounts, roles = Collection("v1", "serviceaccounts", namespace), "rbac.authorization.k8s.io/v1"
    connection.create(accounts, {"metadata": {"name": "client"}})
    rules = [{"apiGroups": groups, "resources": kinds, "verbs": verbs} for groups, kinds, verbs in CLIENT_RIGHTS]
    connection.create(Collection(roles, "roles", namespace), {"metadata": {"name": "client"}, "rules": rules})
    binding = {
        "metadata": {"name": "client"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "client"},
        "subjects": [{"kind": "ServiceAccount", "name": "client", "namespace": namespace}],
    }
    connection.create(Collection(roles, "rolebindings", namespace), binding)
    own = _connection_of(kubernetes, connection, namespace, tmp_path, account="client")
    with pytest.raises(ForbiddenError, match="poddisruptionbudgets"):
        Deployer(own).apply(cluster_in(namespace))
    apply(own, cluster_in(namespace, disruptionBudget=False))
    assert Deployer(own).stop("flights", namespace, with_secret=True)
    own.close()


def test_what_is_refused_is_said(connection: Connection, namespace: str) -> None:
    template = {"spec": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}}
    cluster = cluster_in(namespace, coordinator={"podTemplate": template})
    apply(connection, cluster, until='violates PodSecurity "restricted:latest"')


def test_the_secret_is_made_once_and_outlives_the_cluster(
    connection: Connection, namespace: str, kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, deployer = cluster_in(namespace), Deployer(connection)
    secrets = Collection("v1", "secrets", namespace)
    apply(connection, cluster)
    made = value_at(connection.get(secrets, "flights-headrace"), "data")
    apply(connection, cluster)
    assert value_at(connection.get(secrets, "flights-headrace"), "data") == made
    assert isinstance(made, dict)
    assert made.keys() == {"token", "key"}
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    access = with_secrets(cluster.election, NOTHING, NOTHING)
    assert access.token == decoded(made["token"]).strip()
    authority = access.authority
    assert isinstance(authority, NamedServer)
    assert authority.name == f"flights.{namespace}.svc"
    assert with_secrets(cluster.election, ClusterAccess("t", Path("ca.pem")), NOTHING).token == "t"
    assert deployer.stop("flights", namespace, with_secret=False)
    assert value_at(connection.get(secrets, "flights-headrace"), "data") == made
    assert deployer.stop("flights", namespace, with_secret=True)
    assert connection.list(secrets).items == ()
    assert with_secrets(cluster.election, NOTHING, NOTHING) == NOTHING
    otherwise = ClusterAccess("recorded", Path("ca.pem"))
    assert with_secrets(cluster.election, NOTHING, otherwise) == otherwise
    assert not deployer.stop("flights", namespace, with_secret=True)


def test_a_certificate_is_issued_anew_near_its_end_by_the_same_authority(
    connection: Connection, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_in(namespace)
    secrets = Collection("v1", "secrets", namespace)

    def files() -> dict[str, str]:
        data = value_at(connection.get(secrets, "flights-tls"), "data")
        assert isinstance(data, dict)
        return {name: decoded(each) for name, each in data.items()}

    apply(connection, cluster)
    first = files()
    assert not is_due(first["tls.crt"], (f"flights.{namespace}.svc", f"flights-control.{namespace}.svc"), NOW)
    apply(connection, cluster)
    assert files() == first
    monkeypatch.setattr(issuing, "RENEWED_BEFORE_END", issuing.CERTIFICATE_LASTS)
    apply(connection, cluster)
    second = files()
    assert second["tls.crt"] != first["tls.crt"]
    assert second["tls.key"] != first["tls.key"]
    assert second["ca.crt"] == first["ca.crt"]


def test_a_certificate_of_somebody_else_is_used_as_it_is(connection: Connection, namespace: str) -> None:
    secrets = Collection("v1", "secrets", namespace)
    data = {name: base64.b64encode(b"theirs").decode() for name in ("tls.crt", "tls.key", "ca.crt")}
    connection.create(secrets, {"metadata": {"name": "flights-tls"}, "type": "kubernetes.io/tls", "data": data})
    apply(connection, cluster_in(namespace))
    assert value_at(connection.get(secrets, "flights-tls"), "data") == data
    Deployer(connection).stop("flights", namespace, with_secret=True)
    assert [metadata_of(each).name for each in connection.list(secrets).items] == ["flights-tls"]


def test_nothing_else_is_left_when_it_has_stopped(connection: Connection, namespace: str) -> None:
    apply(connection, cluster_in(namespace, networkPolicy={"enabled": True}))
    Deployer(connection).stop("flights", namespace, with_secret=False)
    kinds = {"pods": "v1", "services": "v1", "deployments": "apps/v1", "replicasets": "apps/v1"}
    kinds |= {"poddisruptionbudgets": "policy/v1", "networkpolicies": "networking.k8s.io/v1"}

    def left() -> list[str]:
        found = [
            each for kind, api in kinds.items() for each in connection.list(Collection(api, kind, namespace)).items
        ]
        maps = connection.list(Collection("v1", "configmaps", namespace)).items
        names = [metadata_of(each).name for each in (*found, *maps)]
        return [each for each in names if each != "kube-root-ca.crt"]

    wait_until(lambda: not left(), "all of it is gone")


def test_a_coordinator_may_do_what_it_has_to_and_nothing_else(
    connection: Connection, namespace: str, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    cluster = cluster_in(namespace, workers={"podTemplate": {"metadata": {"labels": {"team": "x"}}}})
    apply(connection, cluster)
    own = _connection_of(kubernetes, connection, namespace, tmp_path)
    maps = Collection("v1", "configmaps", namespace)
    file = tmp_path / WORKERS_FILE
    file.write_text(text_at(connection.get(maps, "flights-headrace"), "data", WORKERS_FILE) or "")
    driver = WorkerPods(own, read_workers_file(file), WorkerOrder("flights-control:8481", 1), term=3)
    driver.start("flights-w3-1")
    # admitted at the restricted level, too
    assert driver.workers() == (WorkerReport("flights-w3-1", WorkerPhase.PENDING),)
    pod = connection.get(Collection("v1", "pods", namespace), "flights-w3-1")
    assert metadata_of(pod).labels["team"] == "x"
    assert value_at(pod, "spec", "serviceAccountName") == "default"
    with pytest.raises(ForbiddenError):
        own.list(Collection("v1", "secrets", namespace))
    with pytest.raises(ForbiddenError):
        own.get(maps, "flights-headrace")
    # the pods of workers go with the Deployment
    Deployer(connection).stop("flights", namespace, with_secret=False)
    wait_until(lambda: driver.workers() == (), "its pods are gone")
    with pytest.raises(ExternalError, match="there is no Deployment flights"):
        WorkerPods(own, read_workers_file(file), WorkerOrder("flights-control:8481", 1), term=4).start("flights-w4-1")
    driver.close()


def test_a_template_that_the_api_server_refuses_is_an_error_of_the_start(
    connection: Connection, namespace: str, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    apply(connection, cluster_in(namespace))
    maps = Collection("v1", "configmaps", namespace)
    file = tmp_path / WORKERS_FILE
    wrong = worker_template(cluster_in(namespace, workers={"podTemplate": {"spec": {"nodeName": "Not A Name"}}}))
    file.write_text(text_at(connection.get(maps, "flights-headrace"), "data", WORKERS_FILE) or "")
    workers = read_workers_file(file)
    driver = WorkerPods(
        kubernetes.connection(),
        type(workers)(workers.cluster, workers.namespace, workers.owner, wrong),
        WorkerOrder("flights-control:8481", 1),
        term=1,
    )
    with pytest.raises(ExternalError, match="nodeName"):
        driver.start("flights-w1-1")
    assert driver.workers() == ()
    driver.close()


def _connection_of(
    kubernetes: Kubernetes, connection: Connection, namespace: str, folder: Path, account: str = ACCOUNT
) -> Connection:
    """A connection of an account of the namespace, by default that of coordinators."""
    accounts = Collection("v1", "serviceaccounts", namespace)
    request = Request("POST", accounts.path(account, "token"), {}, {"spec": {"expirationSeconds": 3_600}})
    token = text_at(connection._transport.send(request, 30).content, "status", "token")
    assert token is not None
    return open_connection({}, kubeconfig=kubernetes.kubeconfig_of(token, folder / f"{account}.kubeconfig"))
