"""Plans `rename`."""

from __future__ import annotations

from headrace.operators.rename import RenameConfig
from headrace.plan.input_checks import require_column
from headrace.plan.nodes import LogicalNode
from headrace.plan.verbs.step import Step, planner
from headrace.spec.verbs.rename import Rename


def _plan(verb: Rename, step: Step) -> LogicalNode:
    """The node of a step that renames columns, also those of an update key."""
    with step.problems.every() as check:
        for old, _ in verb.columns:
            with check():
                require_column(step.stream.schema, old, (*step.path, verb.NAME, old), step.problems)
    config = RenameConfig(node=step.name, names=tuple(verb.columns), input=step.stream.schema)
    with step.at(verb.NAME):
        output = config.output()
    return step.planned(config, step.passed_on(output, renamed=dict(verb.columns)))


RENAME = planner(Rename, _plan)
