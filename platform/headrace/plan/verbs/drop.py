"""Plans `drop`."""

from __future__ import annotations

from headrace.operators.rename import DropConfig
from headrace.plan.input_checks import require_column
from headrace.plan.nodes import LogicalNode
from headrace.plan.verbs.step import Step, planner
from headrace.spec.verbs.drop import Drop


def _plan(verb: Drop, step: Step) -> LogicalNode:
    """The node of a step that leaves out columns."""
    with step.problems.every() as check:
        for index, column in enumerate(verb.columns):
            with check():
                _check_dropped(step, column, (verb.NAME, str(index)))
    config = DropConfig(node=step.name, columns=tuple(verb.columns), input=step.stream.schema)
    output = config.output()
    if not len(output):
        raise step.refuse((verb.NAME,), "no column would be left", "keep at least one")
    return step.planned(config, step.passed_on(output))


def _check_dropped(step: Step, column: str, below: tuple[str, ...]) -> None:
    if column in (step.stream.update_key or ()):
        raise step.refuse(
            below, f"the rows of {step.input_name} update each other by ({step.key_text}): {column!r} must stay"
        )
    require_column(step.stream.schema, column, (*step.path, *below), step.problems)


DROP = planner(Drop, _plan)
