"""Plans `filter`."""

from __future__ import annotations

from headrace.operators.filter import FilterConfig
from headrace.plan.nodes import LogicalNode
from headrace.plan.problems import UnknownInputError
from headrace.plan.verbs.step import Step, planner
from headrace.spec.verbs.filter import Filter


def _plan(verb: Filter, step: Step) -> LogicalNode:
    """The node of a filter. Of updating rows, one that does not pass becomes a delete."""
    config = FilterConfig(
        node=step.name,
        predicate=verb.predicate,
        input=step.stream.schema,
        has_time=step.stream.timed,
        update_key=step.stream.update_key,
        on_error=step.on_error,
    )
    main = step.passed_on(step.stream.schema, deletes=step.stream.update_key is not None)
    try:
        with step.at(verb.NAME):
            needs = config.needs()
    except UnknownInputError as error:
        # a filter gives the columns that it reads, whatever its predicate is
        raise UnknownInputError(step.outputs(main)) from error
    return step.planned(config, main, needs)


FILTER = planner(Filter, _plan)
