"""Which masters run elsewhere, and what they cannot reach."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.spark.launch.replay import require_reachable, runs_here

HERE = ["local", "local[2]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077", "spark://localhost:1,[::1]:2"]
ELSEWHERE = [
    "spark://host:7077",
    "spark://localhost:1,host:1",
    "yarn",
    "k8s://https://host:443",
    "sc://localhost:15002",
]


@pytest.mark.parametrize("master", HERE)
def test_here(master: str) -> None:
    assert runs_here(master)
    require_reachable(master, {"checkpoint storage": "/folder"})


@pytest.mark.parametrize("master", ELSEWHERE)
def test_elsewhere(master: str) -> None:
    assert not runs_here(master)
    require_reachable(master, {"checkpoint storage": "s3://bucket/prefix", "--savepoint": None})
    for place in ("/folder", "file:///folder", "relative"):
        with pytest.raises(UserError, match=r"--savepoint .* is a folder of this host(.|\n)*--allow-local-storage"):
            require_reachable(master, {"checkpoint storage": "s3://bucket", "--savepoint": place})


def test_a_volume_of_all_pods_is_reached() -> None:
    master, mounted = "k8s://https://api:6443", ("/mnt/checkpoints",)
    for place in ("/mnt/checkpoints", "/mnt/checkpoints/jobs", "file:///mnt/checkpoints/jobs"):
        require_reachable(master, {"checkpoint storage": place}, mounted)
    for place in ("/mnt/checkpoints-2", "/mnt", "file:///mnt/other"):
        with pytest.raises(UserError, match="persistentVolumeClaim"):
            require_reachable(master, {"checkpoint storage": place}, mounted)
