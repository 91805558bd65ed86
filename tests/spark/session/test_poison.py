"""Hostile rows on Spark end as they do in threads: `tests/flows/test_poison.py` has the other engines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.core.reporting import FAILED
from headrace.spark.driver.exchange import RddExchange
from support.flows.poison import poisoned_json
from support.flows.poisoned_runs import OUTPUTS, Way, ends, hostile_function, placed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = Way(batch=1_000, engine="threads", kernels=True)
SPARK = Way(batch=1_000, engine="spark", kernels=True)


@pytest.mark.parametrize("policy", ["divert", pytest.param("skip", marks=pytest.mark.full)])
@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.full)])
def test_hostile_rows_end_as_they_do_in_threads(count: int, policy: str, spark: SparkSession, tmp_path: Path) -> None:
    FAILED.clear()
    placed(tmp_path, poisoned_json(count, count).messages)
    with hostile_function(tmp_path):
        right = ends(tmp_path, "json", THREADS, policy)
        found = ends(tmp_path, "json", SPARK, policy, RddExchange(spark))
    for name in OUTPUTS:
        texts, wanted = Counter(map(repr, found[name])), Counter(map(repr, right[name]))
        # of thousands of rows, which pytest would compare text by text
        assert ([*texts - wanted][:3], [*wanted - texts][:3]) == ([], []), name
    assert right["rows"]
    assert not FAILED
