"""Plans `map`."""

from __future__ import annotations

from headrace.operators.map import MapConfig
from headrace.plan.nodes import LogicalNode
from headrace.plan.verbs.step import Step, planner
from headrace.spec.verbs.map import Map


def _plan(verb: Map, step: Step) -> LogicalNode:
    """The node of a step that calls a function of the user's. It imports nothing."""
    config = MapConfig(
        node=step.name,
        function=verb.function,
        schema=verb.columns,
        input=step.stream.schema,
        on_error=step.on_error,
    )
    return step.planned(config, step.passed_on(config.output()))


MAP = planner(Map, _plan)
