"""From a deployment to the plan that the slot runs: planned again here, and the same as the coordinator's."""

from __future__ import annotations

from headrace.core.errors import UserError
from headrace.plan.chaining import plan_physical
from headrace.plan.explain import plan_dict
from headrace.plan.logical import plan_logical
from headrace.plan.physical import PhysicalPlan
from headrace.rpc.deployment import Deployment
from headrace.spec.pipeline import Pipeline


def deployed_plan(deployment: Deployment) -> PhysicalPlan:
    """The physical plan. Raises InvalidPipeline, and UserError where it is not the one that was deployed."""
    pipeline = Pipeline.from_dict(deployment.pipeline)
    plan = plan_physical(plan_logical(pipeline), pipeline)
    found = plan_dict(plan)["hash"]
    if found != deployment.plan_hash:
        raise UserError(
            f"this worker plans {pipeline.name} differently than the coordinator: {found} and {deployment.plan_hash}",
            remedy="run equal versions of headrace, its connectors and the pipeline's code on coordinator and workers",
        )
    return plan
