"""Settings for Spark's own scheduler on a cluster whose nodes are namespaces of this machine: its pods run the image of
deploy/spark and see this machine's programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from testcontainers.core.labels import SESSION_ID

from support.containers.engine import engine_client
from support.containers.headrace_image import save_image
from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.nodes.cluster import NodeCluster
from support.patience import WAIT_SECONDS
from support.repository import ROOT
from support.spark.kubernetes.image import image_folders, spark_image

IMAGE = f"headrace/spark:{SESSION_ID}"
ACCOUNT = "spark"
ROLES = ("driver", "executor")
_LITTLE_COMPILED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_RIGHTS = re.compile(r"^ *```yaml\n( *apiVersion: v1\n *kind: ServiceAccount.*?)^ *```$", re.DOTALL | re.MULTILINE)


def import_spark_image(nodes: NodeCluster, folder: Path) -> None:
    """Makes the image known to the nodes. folder: for an archive."""
    archive = folder / "spark.tar"
    with engine_client() as client:
        # the name stays until the session ends: without one the engine would remove the image
        client.images.get(spark_image()).tag(IMAGE)
        save_image(IMAGE, archive)
    nodes.import_image(archive)


def make_spark_account(kubernetes: Kubernetes, namespace: str, folder: Path) -> Path:
    """Makes the account of docs/spark.md in a namespace. Returns a kubeconfig of its own rights."""
    (shown,) = _RIGHTS.findall((ROOT / "docs/spark.md").read_text())
    text = re.sub(r"^   ", "", shown, flags=re.MULTILINE).replace("namespace: data", f"namespace: {namespace}")
    kubernetes.kubectl("apply", "--filename", "-", given=text)
    token = kubernetes.kubectl("--namespace", namespace, "create", "token", ACCOUNT).strip()
    return kubernetes.kubeconfig_of(token, folder / "spark.kubeconfig")


def spark_settings(namespace: str) -> Mapping[str, str]:
    """Small pods with one executor, patient clients, and this machine's programs as volumes."""
    settings = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.container.image.pullPolicy": "Never",
        "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
        "spark.executor.instances": "1",
    }
    for role in ROLES:
        settings |= {
            f"spark.{role}.memory": "512m",
            f"spark.{role}.extraJavaOptions": _LITTLE_COMPILED,
            f"spark.kubernetes.{role}.request.cores": "100m",
        }
        for number, path in enumerate(image_folders()):
            settings |= host_volume(role, f"machine-{number}", path, str(path), read_only=True)
    for who in ("submission", "driver"):
        # by default 10 s
        for what in ("connection", "request"):
            settings[f"spark.kubernetes.{who}.{what}Timeout"] = str(int(WAIT_SECONDS * 1_000))
    return settings


def host_volume(role: str, name: str, path: Path, inside: str, *, read_only: bool = False) -> Mapping[str, str]:
    """Settings by which pods of a role see a folder of the node."""
    volume = f"spark.kubernetes.{role}.volumes.hostPath.{name}"
    return {
        f"{volume}.mount.path": inside,
        f"{volume}.mount.readOnly": str(read_only).lower(),
        f"{volume}.options.path": str(path),
    }
