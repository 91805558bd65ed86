"""What is added for YARN, and what a user's word goes before."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.spark.cluster.cluster_settings import (
    DRIVER,
    EXECUTOR,
    api_address,
    driver_settings,
    executor_room,
    is_kubernetes,
    mounts,
    pod_name,
    pod_room,
    require_conf_dir,
    require_image,
)
from headrace.spark.cluster.session import settings


def test_a_cluster_has_to_be_named() -> None:
    with pytest.raises(UserError, match="HADOOP_CONF_DIR"):
        require_conf_dir({"HADOOP_CONF_DIR": ""})
    require_conf_dir({"YARN_CONF_DIR": "/etc/hadoop"})


def test_executors_have_room_for_python_for_each_core() -> None:
    assert executor_room({}) == {"spark.executor.memoryOverhead": "1024m"}
    assert executor_room({"spark.executor.cores": "4"}) == {"spark.executor.memoryOverhead": "4096m"}


@pytest.mark.parametrize("said", ["memoryOverhead", "memoryOverheadFactor", "pyspark.memory"])
def test_a_user_who_says_how_much_is_left_alone(said: str) -> None:
    assert executor_room({f"spark.executor.{said}": "1"}) == {}


def test_a_driver_on_the_cluster_is_tried_again_only_where_it_follows() -> None:
    assert driver_settings({}, follow=False) == {
        "spark.driver.memoryOverhead": "1024m",
        "spark.yarn.maxAppAttempts": "1",
    }
    assert driver_settings({"spark.driver.memoryOverhead": "2g"}, follow=True) == {}
    assert driver_settings({"spark.yarn.maxAppAttempts": "3"}, follow=False) == {"spark.driver.memoryOverhead": "1024m"}


def test_a_session_on_yarn_has_them_and_others_have_not() -> None:
    assert settings("yarn", {"spark.executor.cores": "2"})["spark.executor.memoryOverhead"] == "2048m"
    assert "spark.executor.memoryOverhead" not in settings("local[2]", {})


CLAIM = "spark.kubernetes.{}.volumes.persistentVolumeClaim.{}.{}"


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("k8s://https://api:6443", ("api", 6443)),
        ("k8s://api:6443", ("api", 6443)),
        ("k8s://https://api", ("api", 443)),
        ("k8s://http://127.0.0.1/k8s/clusters/one", ("127.0.0.1", 80)),
        ("k8s://https://[::1]:6443", ("::1", 6443)),
    ],
)
def test_the_address_of_the_api_is_as_spark_reads_it(master: str, address: tuple[str, int]) -> None:
    assert is_kubernetes(master)
    assert api_address(master) == address


@pytest.mark.parametrize("master", ["k8s://", "k8s://https://", "k8s://https://api:none"])
def test_what_is_no_address(master: str) -> None:
    with pytest.raises(UserError, match="no address of a Kubernetes API"):
        api_address(master)


def test_pods_need_an_image_of_their_own_or_of_all() -> None:
    require_image((DRIVER, EXECUTOR), {"spark.kubernetes.container.image": "one"})
    require_image((EXECUTOR,), {"spark.kubernetes.executor.container.image": "one"})
    with pytest.raises(UserError, match="the drivers have no image"):
        require_image((DRIVER, EXECUTOR), {"spark.kubernetes.executor.container.image": "one"})


def test_mounts_are_those_that_all_have() -> None:
    conf = {
        CLAIM.format("executor", "a", "mount.path"): "/mnt/a",
        CLAIM.format("executor", "a", "options.claimName"): "claim",
        CLAIM.format("executor", "b", "mount.path"): "/mnt/b",
        CLAIM.format("driver", "other", "mount.path"): "/mnt/b",
    }
    assert mounts((EXECUTOR,), conf) == ("/mnt/a", "/mnt/b")
    assert mounts((DRIVER, EXECUTOR), conf) == ("/mnt/b",)


def test_python_has_memory_unless_the_user_says_how_much() -> None:
    assert pod_room({"spark.executor.cores": "2"}) == {"spark.executor.memoryOverhead": "2048m"}
    assert pod_room({"spark.kubernetes.memoryOverheadFactor": "0.5"}) == {}
    assert pod_room({"spark.executor.memoryOverhead": "1g"}) == {}


@pytest.mark.parametrize("pipeline", ["a", "hourly-delays", "x" * 62, "x" * 44 + "-" * 9])
def test_a_name_of_a_pod_is_one_that_kubernetes_takes(pipeline: str) -> None:
    name = pod_name(pipeline, "0a1b2c3d")
    assert name.startswith("headrace-")
    assert name.endswith("-0a1b2c3d-driver")
    assert len(name) <= 63
    assert "--" not in name
