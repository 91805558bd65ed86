"""Pods run, log, reach each other and what runs here, and end; a node that is lost is lost as one of a data center."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import headrace
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import broker_config, consume_all, create_topic, produce, unique_topic
from support.kubernetes.control.cluster import API_SERVER
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.machine_pod import machine_container, machine_pod, machine_volumes
from support.patience import BROKER_SESSION
from support.processes.running import wait_until
from support.repository import ROOT

pytestmark = pytest.mark.turns(3, of="files")

PORT = 8080
ANSWERS = f"""
import os, signal, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

def end(*_):
    print("ends", flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, end)

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.uname().nodename.encode())

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("0.0.0.0", {PORT}), Handler)
print("answers", flush=True)
server.serve_forever()
"""
ASKS = """
import sys, time, urllib.request
for _ in range(600):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=1).read().decode())
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("no answer")
"""
ASKS_API = """
import json, os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
token = open(f"{folder}/token").read()
url = "https://kubernetes.default.svc/version"
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
print(json.load(urllib.request.urlopen(request, context=context, timeout=60))["gitVersion"])
"""
COPIES = """
import sys
from confluent_kafka import Consumer, Producer
bootstrap, source, target = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "pod", "auto.offset.reset": "earliest"})
consumer.subscribe([source])
message = None
while message is None or message.error():
    message = consumer.poll(1)
producer = Producer({"bootstrap.servers": bootstrap})
producer.produce(target, message.value() + b" by way of a pod")
sys.exit(producer.flush(60))
"""
LOST_SOON = [
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    for state in ("not-ready", "unreachable")
]


def _python(code: str, *arguments: str) -> list[str]:
    return ["python", "-c", code, *arguments]


def _create(cluster: NodeCluster, namespace: str, document: dict[str, Any]) -> str:
    """Creates a pod; returns its name."""
    cluster.api.create(f"/api/v1/namespaces/{namespace}/pods", document)
    return str(document["metadata"]["name"])


def _output(cluster: NodeCluster, namespace: str, name: str) -> str:
    """What a pod has printed at its end."""
    ended = ("Succeeded", "Failed")
    wait_until(lambda: cluster.phase(namespace, name) in ended, f"pod {name} ends")
    output = cluster.log(namespace, name)
    assert cluster.phase(namespace, name) == "Succeeded", output
    return output


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    """Of pods that answer, spread over the nodes."""
    labels = {"matchLabels": {"app": name}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": labels,
    }
    spec = {
        "containers": [machine_container(_python(ANSWERS))],
        "volumes": machine_volumes(),
        "tolerations": LOST_SOON,
        "topologySpreadConstraints": [spread],
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": labels,
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def _answers(address: str) -> str | None:
    """The name of the pod that answers there; None: nobody does."""
    try:
        return httpx.get(f"http://{address}:{PORT}", timeout=2, trust_env=False).text
    except httpx.TransportError:
        return None


def test_a_pod_runs_logs_and_is_told_to_end(nodes: NodeCluster, pod_namespace: str) -> None:
    name = _create(nodes, pod_namespace, machine_pod("server", _python(ANSWERS)))
    wait_until(lambda: nodes.phase(pod_namespace, name) == "Running", "the pod runs")
    wait_until(lambda: "answers" in nodes.log(pod_namespace, name), "its log can be read")
    pod = nodes.pod(pod_namespace, name)
    assert pod is not None
    assert _answers(pod["status"]["podIP"]) == "server"
    with nodes.kubectl_started("--namespace", pod_namespace, "logs", "--follow", name) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "answers\n"
        nodes.api.delete(f"/api/v1/namespaces/{pod_namespace}/pods/{name}")
        assert following.stdout.readline() == "ends\n"
    wait_until(lambda: nodes.pod(pod_namespace, name) is None, "the pod is gone")


@pytest.mark.full
def test_a_pod_has_the_environment_of_these_tests(nodes: NodeCluster, pod_namespace: str) -> None:
    code = "import headrace, polars, confluent_kafka, ssl; print(headrace.__file__)"
    name = _create(nodes, pod_namespace, machine_pod("imports", _python(code)))
    assert _output(nodes, pod_namespace, name) == f"{headrace.__file__}\n"


def test_pods_find_services_and_the_api_by_name(nodes: NodeCluster, pod_namespace: str) -> None:
    nodes.api.create(f"/apis/apps/v1/namespaces/{pod_namespace}/deployments", _deployment("web", 1))
    service = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": PORT}]},
    }
    nodes.api.create(f"/api/v1/namespaces/{pod_namespace}/services", service)
    asks = _create(nodes, pod_namespace, machine_pod("asks", _python(ASKS, "http://web/")))
    asks_api = _create(nodes, pod_namespace, machine_pod("asks-api", _python(ASKS_API)))
    assert _output(nodes, pod_namespace, asks).startswith("web-")
    assert _output(nodes, pod_namespace, asks_api).startswith("v1.")


@pytest.fixture
def broker(nodes: NodeCluster, tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """Listens where pods reach it, and this test too."""
    config = broker_config(tmp_path / "kafka", settings=BROKER_SESSION)
    with EmbeddedBroker(replace(config, host=nodes.here)) as running:
        yield running


@pytest.mark.full
@pytest.mark.broker
def test_a_pod_reads_and_writes_at_a_broker_here(
    nodes: NodeCluster, pod_namespace: str, broker: EmbeddedBroker
) -> None:
    source, target = (create_topic(broker, unique_topic()) for _ in range(2))
    produce(broker, source, [b"a record"])
    name = _create(nodes, pod_namespace, machine_pod("copies", _python(COPIES, broker.bootstrap, source, target)))
    assert _output(nodes, pod_namespace, name) == ""
    assert [record.value for record in consume_all(broker, target)] == [b"a record by way of a pod"]


@pytest.mark.full
def test_pods_run_on_while_the_api_server_is_gone(nodes: NodeCluster, pod_namespace: str) -> None:
    name = _create(nodes, pod_namespace, machine_pod("server", _python(ANSWERS)))
    wait_until(lambda: "answers" in nodes.log(pod_namespace, name), "the pod answers")
    pod = nodes.pod(pod_namespace, name)
    assert pod is not None
    nodes.kill(API_SERVER)
    try:
        assert _answers(pod["status"]["podIP"]) == "server"
    finally:
        nodes.start(API_SERVER)
        nodes.wait_ready()
    assert nodes.phase(pod_namespace, name) == "Running"


def _spread(cluster: NodeCluster, namespace: str) -> dict[str, str]:
    """Address of a running pod of two that answer, by the node that it is on."""
    cluster.api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", _deployment("web", 2))

    def addresses() -> dict[str, str]:
        pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return {pod["spec"]["nodeName"]: pod["status"]["podIP"] for pod in pods if pod["status"].get("podIP")}

    wait_until(lambda: len(addresses()) == 2 and all(map(_answers, addresses().values())), "a pod on each node answers")
    return addresses()


def _replaced(cluster: NodeCluster, namespace: str, lost: str) -> bool:
    """Whether a pod runs in place of the one that was on another node."""
    pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    running = [
        pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]
    return [pod["spec"]["nodeName"] != lost for pod in running].count(True) == 2


@pytest.mark.full
def test_pods_of_a_killed_node_are_replaced_on_another_one(two_nodes: NodeCluster) -> None:
    with two_nodes.namespace() as namespace:
        places = _spread(two_nodes, namespace)
        two_nodes.kill_node("node2")
        assert _answers(places["node2"]) is None
        two_nodes.wait_node("node2", ready=False)
        wait_until(lambda: _replaced(two_nodes, namespace, "node2"), "a pod in its place")
        assert _answers(places["node1"]) is not None


@pytest.mark.full
def test_a_pod_that_was_replaced_runs_on_while_its_node_is_cut_off(two_nodes: NodeCluster) -> None:
    """Until the node hears from the cluster again: two pods do the work of one."""
    with two_nodes.namespace() as namespace:
        places = _spread(two_nodes, namespace)
        with two_nodes.cut_off("node2"):
            assert _answers(places["node2"]) is None
            two_nodes.wait_node("node2", ready=False)
            wait_until(lambda: _replaced(two_nodes, namespace, "node2"), "a pod in its place")
            assert "web-" in two_nodes.nodes["node2"].run(
                sys.executable, "-c", ASKS, f"http://{places['node2']}:{PORT}"
            )
        two_nodes.wait_node("node2", ready=True)
        wait_until(lambda: _answers(places["node2"]) is None, "the old pod has ended")


STARTS = """
import sys
from pathlib import Path
from support.kubernetes.nodes.cluster import node_cluster
with node_cluster(Path(sys.argv[1])) as cluster:
    print(cluster.network.wire_here, flush=True)
    print(*(server.pid for each in (cluster, *cluster.nodes.values()) for server in each.servers.values()), flush=True)
    sys.stdin.read()
"""


@pytest.mark.full
def test_a_cluster_ends_with_a_process_that_is_killed(nodes: NodeCluster, tmp_path: Path) -> None:
    """Also beside another one."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path / "n")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        wire = Path("/sys/class/net", starter.stdout.readline().strip())
        assert wire.exists()
        servers = [psutil.Process(int(pid)) for pid in starter.stdout.readline().split()]
        assert len(servers) == 8
        starter.kill()
    _, alive = psutil.wait_procs(servers, timeout=60)
    assert alive == []
    wait_until(lambda: not wire.exists(), "its network is gone")
    nodes.wait_node("node1", ready=True)
