"""A control plane without nodes does for tests what a production cluster does: it stores, collects and authorizes, and
its servers come back with what they have stored.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from support.kubernetes.control.cluster import API_SERVER, CONTROLLER_MANAGER, ETCD, ControlCluster
from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.programs.recipe import CONTROL
from support.kubernetes.programs.requirements import require_binaries
from support.processes.running import wait_until
from support.repository import ROOT

pytestmark = pytest.mark.turns(3)


def _config_map(name: str, **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": name, **metadata}, "data": {"of": name}}


def test_an_object_is_collected_with_its_owner(kubernetes: Kubernetes, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = kubernetes.api.create(maps, _config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    kubernetes.api.create(maps, _config_map("owned", ownerReferences=[reference]))
    kubernetes.api.create(maps, _config_map("free"))
    kubernetes.api.delete(f"{maps}/owner")
    wait_until(lambda: kubernetes.api.find(f"{maps}/owned") is None, "the owned object is collected")
    assert kubernetes.api.find(f"{maps}/free") is not None


def test_kubectl_works_with_the_kubeconfig_alone(kubernetes: Kubernetes, namespace: str) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "none"}]},
            },
        },
    }
    kubernetes.kubectl("--namespace", namespace, "apply", "--filename=-", given=json.dumps(deployment))
    pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dweb"
    wait_until(lambda: len(kubernetes.api.get(pods)["items"]) == 1, "the controller manager makes its pod")


def test_a_deleted_namespace_goes_with_its_objects(kubernetes: Kubernetes) -> None:
    with kubernetes.namespace() as name:
        path = f"/api/v1/namespaces/{name}"
        kubernetes.api.create(f"{path}/configmaps", _config_map("left"))
    wait_until(lambda: kubernetes.api.find(path) is None, "the namespace is gone")


@pytest.mark.full
@pytest.mark.parametrize("server", [ETCD, API_SERVER, CONTROLLER_MANAGER])
def test_a_server_that_was_killed_comes_back_with_what_was_stored(
    own_control_cluster: ControlCluster, server: str
) -> None:
    cluster = own_control_cluster
    with cluster.namespace() as name:
        cluster.kill(server)
        try:
            # the API server asks etcd now and then, and answers by what it knows
            wait_until(lambda: cluster.api.is_ready() == (server == CONTROLLER_MANAGER), "it says what it can do")
        finally:
            cluster.start(server)
        cluster.wait_ready()
        maps = f"/api/v1/namespaces/{name}/configmaps"
        cluster.api.create(maps, _config_map("later"))
        cluster.wait_service_account(name)


@pytest.mark.full
def test_a_suspended_api_server_answers_nobody_until_it_is_resumed(own_control_cluster: ControlCluster) -> None:
    cluster = own_control_cluster
    with cluster.hung(API_SERVER), pytest.raises(httpx.TimeoutException):
        cluster.api.get("/api/v1/namespaces", timeout=0.5)
    assert cluster.api.get("/api/v1/namespaces")["items"]


STARTS = """
import os, sys
from pathlib import Path
from support.kubernetes.control.cluster import control_cluster
with control_cluster(Path(sys.argv[1])) as cluster:
    print(*(server.pid for server in cluster.servers.values()), flush=True)
    sys.stdin.read()
"""


def test_a_cluster_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    require_binaries(CONTROL)
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path / "k")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as starter:
        assert starter.stdout is not None
        servers = [psutil.Process(int(pid)) for pid in starter.stdout.readline().split()]
        assert len(servers) == 3
        starter.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(servers, timeout=60)
    assert alive == []
