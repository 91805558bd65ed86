"""Plans `select` and `with_columns`, which compute columns row by row."""

from __future__ import annotations

from headrace.expr.compiler import compile_scalar
from headrace.operators.operator import OnError
from headrace.operators.project import ProjectConfig
from headrace.plan.nodes import LogicalNode
from headrace.plan.verbs.step import Step, planner
from headrace.spec.expressions import Pairs, quoted
from headrace.spec.verbs.select import Select
from headrace.spec.verbs.with_columns import WithColumns


def _plan_select(verb: Select, step: Step) -> LogicalNode:
    """The node of a step that has only these columns."""
    paths = [str(index) if verb.listed else name for index, (name, _) in enumerate(verb.columns)]
    return _planned(step, verb.columns, paths, keep=False)


def _plan_with_columns(verb: WithColumns, step: Step) -> LogicalNode:
    """The node of a step that adds columns."""
    return _planned(step, verb.columns, [name for name, _ in verb.columns], keep=True)


def _planned(step: Step, columns: Pairs, paths: list[str], *, keep: bool) -> LogicalNode:
    """paths: of each column, below the verb."""
    with step.problems.every() as check:
        for path, (_, text) in zip(paths, columns, strict=True):
            with check(), step.at(step.node.verb_name, path):
                compile_scalar(text, step.stream.schema, has_time=step.stream.timed)
    _check_key(step, dict(columns), keep=keep)
    config = ProjectConfig(
        node=step.name,
        columns=tuple((name, None if text == quoted(name) else text) for name, text in columns),
        input=step.stream.schema,
        keep_input=keep,
        on_error=step.on_error,
        update_key=step.stream.update_key,
        has_time=step.stream.timed,
    )
    needs = config.needs()
    skips = step.stream.update_key is not None and needs.fails and step.on_error is not OnError.FAIL
    return step.planned(config, step.passed_on(config.output(), deletes=skips), needs)


def _check_key(step: Step, columns: dict[str, str], *, keep: bool) -> None:
    """Requires that the step keeps the key of updating rows."""
    for key in step.stream.update_key or ():
        text = columns.get(key)
        same = text is not None and text.strip() in (key, quoted(key))
        if not (same or (keep and text is None)):
            raise step.refuse(
                (step.node.verb_name,),
                f"the rows of {step.input_name} update each other by ({step.key_text}), "
                f"and this step does not keep {key!r}",
                f"keep the column {key!r} as it is",
            )


SELECT = planner(Select, _plan_select)
WITH_COLUMNS = planner(WithColumns, _plan_with_columns)
