"""Compiles a pipeline: checks it and plans it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.local.pipeline_file import Loaded
from headrace.plan.chaining import plan_physical
from headrace.plan.logical import LogicalPlan, plan_logical
from headrace.plan.physical import PhysicalPlan
from headrace.spec.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Compiled:
    """A pipeline, checked and planned."""

    pipeline: Pipeline
    logical: LogicalPlan
    physical: PhysicalPlan


def compile_loaded(loaded: Loaded) -> Compiled:
    """Checks and plans a loaded pipeline. Raises InvalidPipelineError with every problem."""
    logical = plan_logical(loaded.pipeline, loaded.locator)
    return Compiled(loaded.pipeline, logical, plan_physical(logical, loaded.pipeline))


def compile_pipeline(pipeline: Pipeline) -> Compiled:
    """Checks and plans a pipeline that was built in Python. Raises InvalidPipelineError with every problem."""
    return compile_loaded(Loaded(pipeline))
