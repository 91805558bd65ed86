"""What is added for YARN, and what a user's word goes before."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.spark.cluster.session import settings
from headrace.spark.cluster.yarn_settings import driver_settings, executor_room, require_conf_dir


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
