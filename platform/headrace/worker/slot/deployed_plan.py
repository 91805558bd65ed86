"""From a deployment to the plan that the slot runs: planned again here and compared with the coordinator's by hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.concealing import conceal
from headrace.core.errors import UserError
from headrace.plan.chaining import plan_physical
from headrace.plan.explain import plan_dict
from headrace.plan.logical import plan_logical
from headrace.plan.physical import PhysicalPlan
from headrace.rpc.deployment import Deployment
from headrace.spec.reading.read import pipeline_from_dict


def deployed_plan(deployment: Deployment) -> PhysicalPlan:
    """The physical plan of a deployment. Raises as `plan_again`."""
    return plan_again(deployment.pipeline, deployment.plan_hash)


def plan_again(document: Mapping[str, Any], plan_hash: str) -> PhysicalPlan:
    """The physical plan of a pipeline in its file form, whose variables this process hides from now on. Raises
    InvalidPipelineError, and UserError if the plan's hash is not `plan_hash`.
    """
    pipeline = pipeline_from_dict(dict(document))
    conceal(pipeline.hidden)
    plan = plan_physical(plan_logical(pipeline), pipeline)
    found = plan_dict(plan)["hash"]
    if found != plan_hash:
        raise UserError(
            f"this worker plans {pipeline.name} differently than the coordinator: {found} and {plan_hash}",
            remedy="run equal versions of headrace, its connectors and the pipeline's code on coordinator and workers",
        )
    return plan
