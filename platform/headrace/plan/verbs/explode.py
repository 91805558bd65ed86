"""Plans `explode`."""

from __future__ import annotations

from headrace.operators.explode import ExplodeConfig
from headrace.plan.nodes import LogicalNode
from headrace.plan.verbs.step import Step, planner
from headrace.spec.verbs.explode import Explode


def _plan(verb: Explode, step: Step) -> LogicalNode:
    """The node of a step that makes a row of each element."""
    config = ExplodeConfig(node=step.name, column=verb.column, input=step.stream.schema)
    with step.at(verb.NAME):
        output = config.output()
    return step.planned(config, step.passed_on(output))


EXPLODE = planner(Explode, _plan)
