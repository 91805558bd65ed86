"""Replays on Kubernetes by Spark's own scheduler for it: executors as pods, and the driver too.

The cluster is a stand-in (`support.spark.kubernetes`): pods are containers of the image that deploy/spark describes.
That sees this machine's programs; one test has the image that its Dockerfile builds, with nothing of this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.spark.cluster.kubernetes_pods import pods_from_here
from headrace.spark.cluster.spark_submit import installed_spark_submit
from support.containers.engine import leftovers
from support.flows.sent import check_results, write_project
from support.patience import SPARK_SECONDS
from support.processes.running import WAIT_SECONDS, finish, headrace, start, wait_until
from support.spark.kubernetes.built_image import built_spark_image
from support.spark.kubernetes.cluster import IMAGE, NAMESPACE, SERVICE_ACCOUNT, Kubernetes, kubernetes_cluster
from support.spark.kubernetes.kubelet import PodImage

USER_OF_IMAGE = 185
STORAGE = "/mnt/checkpoints"
CLAIM = "checkpoints"
LITTLE_COMPILED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENT = {
    f"spark.kubernetes.{who}.{what}Timeout": str(int(WAIT_SECONDS * 1_000))
    for who in ("submission", "driver")
    for what in ("connection", "request")
}
"""By default Spark's client gives up after 10 s."""
SMALL = {
    **PATIENT,
    "spark.driver.extraJavaOptions": LITTLE_COMPILED,
    "spark.executor.extraJavaOptions": LITTLE_COMPILED,
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.kubernetes.namespace": NAMESPACE,
    "spark.kubernetes.container.image": IMAGE,
}
MINE = """\
import socket
import time
from pathlib import Path

from its_helper import same

PLACE = Path({place!r})


def as_they_are(rows):
    # not before the test says so
    while not (PLACE / "go").exists():
        (PLACE / socket.gethostname()).touch()
        time.sleep(0.05)
    return same(rows)
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder behind the volume that pods have at STORAGE; to this host it lies elsewhere."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def cluster(engine: None, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    before = leftovers()
    with kubernetes_cluster(tmp_path_factory.mktemp("kubernetes") / "node", {CLAIM: shared}) as running:
        yield running
    assert leftovers() == before


def project(folder: Path, place: Path, storage: str) -> Path:
    """A pipeline file with modules beside it; its rows wait for `place`/go. Results are in `storage`/out."""
    return write_project(folder, storage=storage, module=MINE.format(place=str(place)))


def volume(role: str, path: str) -> dict[str, str]:
    claim = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.shared"
    return {f"{claim}.mount.path": path, f"{claim}.options.claimName": CLAIM}


def arguments(cluster: Kubernetes, file: Path, conf: dict[str, str], *further: str) -> list[str]:
    settings = [part for name, value in (SMALL | conf).items() for part in ("--conf", f"{name}={value}")]
    return ["replay", str(file), "--master", f"k8s://{cluster.url}", *settings, "--json", *further]


@pytest.mark.full
def test_executors_are_pods_and_one_is_killed(cluster: Kubernetes, shared: Path, tmp_path: Path) -> None:
    """The driver is here: the folder that pods share has the same path on this host."""
    place = shared / "client"
    place.mkdir()
    file = project(tmp_path, place, str(place))
    conf = {"spark.driver.host": cluster.here, **volume("executor", str(shared))}
    process = start(arguments(cluster, file, conf), tmp_path)

    def working() -> list[str]:
        there = {pod["metadata"]["name"] for pod in cluster.pods("executor")}
        return sorted(path.name for path in place.glob("*-exec-*") if path.name in there)

    def wait(is_so: Callable[[], bool], what: str) -> None:
        wait_until(lambda: process.poll() is not None or is_so(), what, SPARK_SECONDS)

    wait(lambda: len(working()) >= 2, "both work")
    if process.poll() is None:
        before = cluster.pods_ever("executor")
        cluster.kill_pod(working()[0])
        wait(lambda: len(cluster.pods_ever("executor")) > len(before), "another one takes its place")
        (place / "go").touch()
    done = finish(process, SPARK_SECONDS)
    assert done.code == 0, f"{done.err}\n{cluster.kubelet.logs()}"
    assert json.loads(done.out)["rows_in"] == 3_000
    check_results(place / "out")
    assert len(cluster.pods_ever("executor")) > 2, "another one took its place"
    wait_until(lambda: not cluster.pods("executor"), "its pods are gone")


@pytest.mark.full
def test_the_driver_is_a_pod_too(cluster: Kubernetes, shared: Path, tmp_path: Path) -> None:
    """All that it has of this host came with it."""
    check_driver_pod(cluster, shared, tmp_path)


@pytest.mark.full
def test_the_image_that_is_built_runs_a_replay(engine: None, tmp_path: Path) -> None:
    """Driver and executor run as the user of its Dockerfile."""
    shared = tmp_path / "shared"
    shared.mkdir()
    with (
        built_spark_image(tmp_path / "image") as built,
        kubernetes_cluster(tmp_path / "node", {CLAIM: shared}, PodImage(built)) as cluster,
    ):
        check_driver_pod(cluster, shared, tmp_path)
        (result, *_) = (shared / "cluster" / "out").rglob("part-*")
        assert result.stat().st_uid == USER_OF_IMAGE


def check_driver_pod(cluster: Kubernetes, shared: Path, tmp_path: Path) -> None:
    """A replay whose driver and executor are pods."""
    (shared / "cluster").mkdir()
    # every user of an image may write there
    (shared / "cluster").chmod(0o777)
    (shared / "cluster" / "go").touch()
    storage = f"{STORAGE}/cluster"
    file = project(tmp_path, Path(storage), storage)
    conf = {
        "spark.executor.instances": "1",
        "spark.kubernetes.driver.master": cluster.url,
        "spark.kubernetes.authenticate.driver.serviceAccountName": SERVICE_ACCOUNT,
        **volume("driver", STORAGE),
        **volume("executor", STORAGE),
    }
    done = finish(start(arguments(cluster, file, conf, "--deploy-mode", "cluster"), tmp_path), SPARK_SECONDS)
    assert done.code == 0, f"{done.err}\n{cluster.kubelet.logs()}"
    assert json.loads(done.out)["rows_in"] == 3_000
    check_results(shared / "cluster" / "out")
    (driver,) = cluster.pods("driver")
    assert driver["status"]["phase"] == "Succeeded"
    assert driver["spec"]["serviceAccountName"] == SERVICE_ACCOUNT
    assert f"kubectl --namespace {NAMESPACE} logs --follow {driver['metadata']['name']}" in done.err
    wait_until(lambda: not cluster.pods("executor"), "its pods are gone")


@pytest.mark.full
def test_what_is_missing_is_said_before_anything_starts(cluster: Kubernetes, tmp_path: Path) -> None:
    file = project(tmp_path, tmp_path, STORAGE)
    mounted = volume("executor", STORAGE)
    no_image = {"spark.kubernetes.container.image": ""}
    as_pod = ("--deploy-mode", "cluster")
    for conf, mode, said in (
        ({}, (), f"checkpoint storage {STORAGE}/checkpoints is a folder of this host"),
        (mounted, as_pod, f"checkpoint storage {STORAGE}/checkpoints is a folder of this host"),
        (mounted | no_image, (), "the executors have no image"),
        (mounted | no_image | volume("driver", STORAGE), as_pod, "the drivers have no image"),
    ):
        done = headrace(arguments(cluster, file, conf, *mode), tmp_path)
        assert done.code == 2, done.err
        assert said in done.err
    nowhere = arguments(cluster, file, mounted)
    nowhere[nowhere.index("--master") + 1] = "k8s://http://127.0.0.1:9"
    done = headrace(nowhere, tmp_path)
    assert done.code == 3, done.err
    assert "no Kubernetes API answers at http://127.0.0.1:9" in done.err


@pytest.mark.full
def test_a_pod_is_told_of(cluster: Kubernetes) -> None:
    """As the one who submits sees it, with the client of Spark."""
    spec = {"containers": [{"name": "driver", "image": "nobody/nothing:1"}]}
    cluster.api.created("pods", NAMESPACE, {"metadata": {"name": "no-image", "labels": {"of": "test"}}, "spec": spec})
    home = str(Path(installed_spark_submit()).parents[1])
    conf = PATIENT | {"spark.kubernetes.namespace": NAMESPACE}
    with pods_from_here(home, f"k8s://{cluster.url}", conf) as pods:
        wait_until(lambda: (status := pods.status("no-image")) is not None and status.waiting is not None, "it waits")
        (status,) = pods.labelled("of", "test")
        assert status.image_trouble == "ErrImagePull: failed to pull image 'nobody/nothing:1': not found"
        assert pods.status("another") is None
        pods.delete("no-image")
        assert pods.status("no-image") is None
