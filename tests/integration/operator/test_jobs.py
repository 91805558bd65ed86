"""Jobs of the operator: real replicas, a real coordinator with workers, Kafka; exactly once through every change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection
from headrace.kubernetes_operator.resources.kinds import JOB, SNAPSHOT
from headrace.leadership.lease_record import API, PLURAL
from support.clusters.kafka_flow import Flow
from support.clusters.session import frozen
from support.clusters.standbys import StandbyCluster
from support.kubernetes.control.kubernetes import Kubernetes
from support.operator.flow_job import CLUSTER_NAME, NAME, SMALL, spec_of
from support.operator.operators import LEASE, Operators, Resources, operators
from support.operator.page import shown_resources
from support.planted.pipelines import changed, everything_from_files
from support.planted.secrets import planted, shown_in
from support.processes.running import wait_until

pytestmark = pytest.mark.broker
MISTAKES = {
    "refused": (("steps", "chosen", "filter"), "n > ${VARIABLE_12}"),
    "failing": (("steps", "counted", "with_columns", "m"), "cast(concat('${VARIABLE_10}', word) as int64)"),
}
"""Job -> the place of a value with a secret, and that value."""


@pytest.fixture(scope="module")
def replicas(kubernetes: Kubernetes, operated: str, folder: Path) -> Iterator[Operators]:
    """Two replicas of an operator."""
    with operators(kubernetes, operated, folder) as running:
        running.start("o1")
        running.wait_leader()
        running.start("o2")
        yield running


@pytest.fixture(scope="module")
def resources(connection: Connection, operated: str, replicas: Operators) -> Iterator[Resources]:
    found = Resources(connection, operated, replicas)
    yield found
    found.remove_all()


def apply(resources: Resources, flow: Flow, spec: dict[str, Any]) -> None:
    """Applies the spec, and waits until the job that it asks for runs and is exact."""
    before = resources.status(JOB, NAME).get("jobId") if resources.exists(JOB, NAME) else None
    resources.apply(JOB, NAME, spec)
    wait_other_job(resources, flow, before)


def wait_other_job(resources: Resources, flow: Flow, before: str | None) -> None:
    """Waits until a later job than `before` runs, and is exact."""

    def runs() -> bool:
        status = resources.status(JOB, NAME)
        return status.get("phase") == "Running" and status.get("jobId") != before

    resources.wait(runs, f"a job after {before} runs", JOB, NAME)
    flow.job = resources.status(JOB, NAME)["jobId"]
    flow.wait_checkpoint()
    flow.settle()


def test_a_job_runs(resources: Resources, flow: Flow, kubernetes: Kubernetes) -> None:
    apply(resources, flow, spec_of(flow))
    condition = ("wait", "--for=condition=Ready", "--timeout=200s", "headracejob", NAME)
    kubernetes.kubectl("-n", resources.namespace, *condition)
    listed = kubernetes.kubectl("-n", resources.namespace, "get", "hrj", NAME)
    assert "RUNNING" in listed
    assert flow.job in listed
    resources.wait_event(NAME, "Ready", warns=False, says="Running")


def test_an_upgrade_by_savepoint(resources: Resources, flow: Flow) -> None:
    before = flow.job
    apply(resources, flow, spec_of(flow, added="positive"))
    status = resources.status(JOB, NAME)
    assert status["previousJobId"] == before
    assert Path(status["lastSavepoint"].removeprefix("file://"), "manifest.json").is_file()
    assert status["origin"] == status["lastSavepoint"]
    assert flow.cluster.client.status(before).state == "FINISHED"


@pytest.mark.full
def test_an_upgrade_by_last_state(resources: Resources, flow: Flow) -> None:
    before = flow.job
    apply(resources, flow, spec_of(flow, upgradeMode="last-state"))
    assert flow.cluster.client.status(before).state == "CANCELED"


def test_suspended_and_resumed(resources: Resources, flow: Flow) -> None:
    before = flow.job
    resources.apply(JOB, NAME, spec_of(flow, state="suspended"))
    resources.wait_status(JOB, NAME, phase="Stopped", state="SUSPENDED")
    resources.wait_condition(JOB, NAME, "Ready", "Suspended")
    assert flow.cluster.client.status(before).state == "FINISHED"
    apply(resources, flow, spec_of(flow))
    assert flow.job != before


def test_an_operator_that_is_killed_amid_an_upgrade(
    connection: Connection, resources: Resources, flow: Flow, replicas: Operators, cluster: StandbyCluster
) -> None:
    before, leader = flow.job, replicas.wait_leader()
    # the coordinator holds still, so that the stop is recorded and cannot have ended
    with frozen(cluster.leader()):
        resources.apply(JOB, NAME, spec_of(flow, added="positive"))
        resources.wait_status(JOB, NAME, phase="Stopping")
        replicas.kill(leader)
        # its lease ends now, and not when its time has passed: `conformance/test_lease_election` has that
        connection.delete(Collection(API, PLURAL, resources.namespace), LEASE)
    assert replicas.wait_leader() != leader
    wait_other_job(resources, flow, before)
    assert resources.status(JOB, NAME)["previousJobId"] == before
    replicas.start("o3")


@pytest.mark.full
def test_an_upgrade_that_is_refused_goes_back(resources: Resources, flow: Flow) -> None:
    before, spec = flow.job, spec_of(flow, added="positive")
    wrong = spec["pipeline"].replace("filter: value % 3 <> 0", "filter: valu % 3 <> 0")
    apply(resources, flow, {**spec, "pipeline": wrong})
    assert flow.job != before
    message = resources.condition(JOB, NAME, "Degraded")["message"]
    line = wrong[: wrong.index("valu %")].count("\n") + 1
    assert f"pipeline:{line}:" in message
    assert "valu" in message
    assert resources.condition(JOB, NAME, "Ready")["status"] == "True"
    resources.wait_event(NAME, "UpgradeFailed", warns=True)
    # the same job goes on once the spec is as before
    resources.apply(JOB, NAME, spec)
    resources.wait_condition(JOB, NAME, "Degraded", "AsDescribed")
    assert resources.status(JOB, NAME)["jobId"] == flow.job


@pytest.mark.turns(2)
def test_snapshots_by_nonce_and_by_the_clock(resources: Resources, flow: Flow) -> None:
    spec = spec_of(flow, added="positive")
    resources.apply(JOB, NAME, {**spec, "savepointNonce": 7})
    done = resources.wait_status_of_new(SNAPSHOT, f"{NAME}-nonce-7", phase="Completed")
    resources.wait_status(JOB, NAME, lastSavepoint=done["location"], savepointNonce=7)

    resources.apply(JOB, NAME, {**spec, "savepointNonce": 7, "snapshots": {"every": "3s", "keep": 1}})
    seen: dict[str, str] = {}

    def is_replaced() -> bool:
        for name in resources.names(SNAPSHOT):
            if "periodic" in name and (location := resources.status_if_there(SNAPSHOT, name).get("location")):
                seen[name] = location
        return len(seen) > 1 and not manifest(next(iter(seen.values()))).exists()

    wait_until(is_replaced, "an older snapshot is deleted with its files")
    resources.apply(JOB, NAME, {**spec, "savepointNonce": 7})
    assert manifest(done["location"]).is_file()
    flow.settle()


@pytest.mark.full
def test_a_snapshot_that_a_user_asks_for(resources: Resources, flow: Flow) -> None:
    folder = flow.cluster.folder / "asked"
    resources.apply(SNAPSHOT, "mine", {"job": NAME, "folder": str(folder), "disposal": "delete"})
    done = resources.wait_status(SNAPSHOT, "mine", phase="Completed")
    assert folder in manifest(done["location"]).parents
    assert done["jobId"] == flow.job
    resources.delete(SNAPSHOT, "mine")
    resources.wait_gone(SNAPSHOT, "mine")
    assert not manifest(done["location"]).exists()


def test_an_invalid_pipeline_is_said_with_its_place(resources: Resources) -> None:
    text = "name: wrong\nsources: {}\nsinkz: {}\n"
    resources.apply(JOB, "wrong", {"pipeline": text, "cluster": CLUSTER_NAME})
    message = resources.wait_condition(JOB, "wrong", "Degraded", "InvalidPipeline")
    assert "pipeline:3:1: unknown key 'sinkz'" in message
    assert resources.wait_condition(JOB, "wrong", "Ready", "InvalidPipeline") == message
    resources.wait_event("wrong", "InvalidPipeline", warns=True)
    resources.delete(JOB, "wrong")
    resources.wait_gone(JOB, "wrong")


def test_values_of_variables_are_in_their_secret_only(
    resources: Resources, connection: Connection, kubernetes: Kubernetes, replicas: Operators, folder: Path
) -> None:
    secrets = Collection("v1", "secrets", resources.namespace)
    labels = {"headrace.dev/variables": "true"}
    connection.create(secrets, {"metadata": {"name": "planted", "labels": labels}, "stringData": planted()})
    (folder / "rows").mkdir()
    for name, (place, text) in MISTAKES.items():
        pipeline = json.dumps(changed(everything_from_files(folder / "rows"), place, text), indent=1)
        fields = {"cluster": CLUSTER_NAME, "variablesFrom": {"secret": "planted"}}
        resources.apply(JOB, name, {"pipeline": pipeline, **fields})
    for name in MISTAKES:

        def is_told(job: str = name) -> bool:
            told = resources.condition(JOB, job, "Degraded")
            return told.get("status") == "True" and "${VARIABLE_" in told.get("message", "")

        resources.wait(is_told, "its condition names the variable", JOB, name)
    kinds = kubernetes.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    assert {"events", "configmaps", "headracejobs.headrace.dev"} <= set(kinds)
    listed = json.loads(
        kubernetes.kubectl("-n", resources.namespace, "get", ",".join(set(kinds) - {"secrets"}), "-o", "json")
    )["items"]
    assert {"Event", "HeadraceJob"} <= {each["kind"] for each in listed}
    assert not shown_in(json.dumps(listed))
    secret_names = kubernetes.kubectl("-n", resources.namespace, "get", "secrets", "-o", "name").split()
    others = [name for name in secret_names if name != "secret/planted"]
    template = "{{range $name, $value := .data}}{{$value | base64decode}}{{end}}"
    shown = [
        kubernetes.kubectl("-n", resources.namespace, "get", name, "-o", f"go-template={template}") for name in others
    ]
    assert not shown_in("".join(shown)), "of the Secrets, only the user's own has values"
    assert not shown_in(replicas.logs())
    for name in MISTAKES:
        resources.delete(JOB, name)
        resources.wait_gone(JOB, name)


@pytest.mark.full
def test_job_and_snapshot_of_the_page_end_as_it_says(
    resources: Resources, connection: Connection, flow: Flow, folder: Path
) -> None:
    """On this cluster, with a pipeline and folders of this test."""
    shown = shown_resources()
    job, snapshot = shown[JOB.name], shown[SNAPSHOT.name]
    place, name = job["spec"]["pipelineFrom"]["configMap"], job["metadata"]["name"]
    maps = Collection("v1", "configmaps", resources.namespace)
    text = SMALL.replace("rate: 5", 'rate: "${RATE}"')
    connection.create(maps, {"metadata": {"name": place["name"]}, "data": {place["key"]: text}})
    secrets = Collection("v1", "secrets", resources.namespace)
    connection.create(
        secrets, {"metadata": {"name": name, "labels": {"headrace.dev/variables": "true"}}, "stringData": {"RATE": "5"}}
    )
    saved = str(folder / "shown")
    own = {"cluster": CLUSTER_NAME, "savepointFolder": saved, "parallelism": 1, "variablesFrom": {"secret": name}}
    resources.apply(JOB, name, {**job["spec"], **own})
    resources.wait_condition(JOB, name, "Ready", "Running")
    resources.apply(SNAPSHOT, snapshot["metadata"]["name"], {**snapshot["spec"], "folder": saved})
    done = resources.wait_status(SNAPSHOT, snapshot["metadata"]["name"], phase="Completed")
    assert manifest(done["location"]).is_file()
    # the text of the ConfigMap is followed
    before = resources.status(JOB, name)["jobId"]
    connection.patch(
        maps, place["name"], {"data": {place["key"]: text.replace("name: dep", "x-text: another\nname: dep")}}
    )
    resources.wait(lambda: resources.status(JOB, name).get("previousJobId") == before, "another job runs", JOB, name)
    resources.wait_condition(JOB, name, "Ready", "Running")
    resources.delete(JOB, name)
    resources.wait_gone(JOB, name)
    resources.delete(SNAPSHOT, snapshot["metadata"]["name"])
    resources.wait_gone(SNAPSHOT, snapshot["metadata"]["name"])
    # `disposal: keep`
    assert manifest(done["location"]).is_file()


@pytest.mark.full
def test_an_operator_that_ends_gives_the_lease_up(resources: Resources, replicas: Operators, flow: Flow) -> None:
    leader = replicas.wait_leader()
    assert replicas.end(leader) == 0
    assert replicas.wait_leader() != leader
    apply(resources, flow, spec_of(flow, added="positive", restartNonce=1))


@pytest.mark.turns(2)
def test_a_job_that_is_deleted_leaves_a_savepoint(resources: Resources, flow: Flow) -> None:
    with flow.feed.paused():
        flow.wait_exact()
        resources.delete(JOB, NAME)
        resources.wait_gone(JOB, NAME)
        flow.wait_exact()
    ended = flow.cluster.client.status(flow.job)
    assert ended.state == "FINISHED"
    assert ended.savepoint is not None
    assert json.loads(manifest(ended.savepoint).read_text())["kind"] == "savepoint"
    flow.cluster.wait_free(4)


def manifest(location: str) -> Path:
    """The manifest of a savepoint in a local folder."""
    return Path(location.removeprefix("file://")) / "manifest.json"
