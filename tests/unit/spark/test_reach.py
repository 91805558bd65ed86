"""Which masters run elsewhere, and what they cannot reach."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.spark.reach import require_reachable, runs_here

HERE = ["local", "local[2]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077", "spark://localhost:1,[::1]:2"]
ELSEWHERE = ["spark://host:7077", "spark://localhost:1,host:1", "yarn", "k8s://https://host:443", "sc://localhost:15002"]


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
