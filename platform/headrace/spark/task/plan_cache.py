"""Caches the plan of a Spark task in its process: a worker of Spark runs many small tasks of one job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from headrace.plan.physical import PhysicalPlan
from headrace.worker.slot.deployed_plan import plan_again

PLANS = 4
"""Plans that a process keeps: concurrent jobs share its workers."""


def known_plan(pipeline: Mapping[str, Any], plan_hash: str) -> PhysicalPlan:
    """Returns the physical plan of a pipeline in its file form. Raises as `plan_again`."""
    return _planned(json.dumps(pipeline), plan_hash)


@lru_cache(maxsize=PLANS)
def _planned(document: str, plan_hash: str) -> PhysicalPlan:
    return plan_again(json.loads(document), plan_hash)
