"""Plans `aggregate`: by key, with a window or running."""

from __future__ import annotations

from typing import assert_never

from headrace.expr.compiler import compile_aggregates
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from headrace.plan.input_checks import require_key
from headrace.plan.nodes import LogicalNode
from headrace.plan.partitioning import Global, Hash
from headrace.plan.stream import Stream
from headrace.plan.verbs.step import Step, planner
from headrace.spec import window as windows
from headrace.spec.verbs.aggregate import Aggregate


def _plan(verb: Aggregate, step: Step) -> LogicalNode:
    """The node of an aggregate. Its rows are spread by its keys."""
    schema, window = step.stream.schema, None if verb.window is None else _window(verb.window)
    with step.problems.every() as check:
        for index, key in enumerate(verb.key_by):
            with check():
                require_key(schema, key, (*step.path, "key_by", str(index)), step.problems)
        with check():
            _check_window(verb, step, window)
        with check():
            _check_placement(verb, step)
        for name, text in verb.aggregate:
            with check():
                _check_aggregate(verb, step, name, text)
    keys = tuple(verb.key_by)
    config = AggregateConfig(
        node=step.name,
        keys=keys,
        window=window,
        aggregates=tuple(verb.aggregate),
        input=schema,
        allowed_lateness_ms=verb.allowed_lateness_ms,
        lateness=verb.lateness,
        order=verb.order,
        on_error=step.on_error,
    )
    with step.at():
        output = config.output()
    return step.placed(
        config,
        Stream(output, step.stream.timed, _update_key(verb), keys),
        config.needs(),
        parallelism=step.node.parallelism or (step.default_parallelism if keys else 1),
        partitionings=(Hash(keys) if keys else Global(),),
    )


def _update_key(verb: Aggregate) -> tuple[str, ...] | None:
    """The key of results that are replaced later; None: each is final."""
    keys = tuple(verb.key_by)
    if verb.window is None:
        return keys
    return (*keys, "window_start", "window_end") if verb.allowed_lateness_ms else None


def _check_aggregate(verb: Aggregate, step: Step, name: str, text: str) -> None:
    made = {*verb.key_by, "window_start", "window_end"} if verb.window else set(verb.key_by)
    if name in made:
        raise step.refuse((verb.NAME, name), f"there would be two columns {name!r}", "give it another name")
    with step.at(verb.NAME, name):
        compile_aggregates({name: text}, step.stream.schema, verb.key_by, has_time=step.stream.timed)


def _check_placement(verb: Aggregate, step: Step) -> None:
    """The keys alone decide how the rows of an aggregate are spread."""
    if not verb.key_by and (step.node.parallelism or 1) > 1:
        raise step.refuse(("parallelism",), "without key_by there is one group: parallelism is 1", "leave it out")
    if step.node.partition is not None:
        raise step.refuse(("partition",), "key_by decides how rows are spread here")


def _check_window(verb: Aggregate, step: Step, window: Window | None) -> None:
    if window is None:
        if verb.allowed_lateness_ms:
            raise step.refuse(("allowed_lateness",), "a running aggregate drops nothing, so nothing is late")
        return
    if not step.stream.timed:
        raise step.refuse(
            ("window",),
            f"windows need event time, and the rows of {step.input_name} have none",
            "give its source a `time:` with the column that holds it",
        )
    for message in window.check():
        raise step.refuse(("window",), message)


def _window(window: windows.Window) -> Window:
    match window:
        case windows.Tumbling():
            return Tumbling(window.size_ms, window.offset_ms, window.timezone)
        case windows.Sliding():
            return Sliding(window.size_ms, window.every_ms, window.offset_ms, window.timezone)
        case windows.Cumulate():
            return Cumulate(window.size_ms, window.every_ms, window.offset_ms, window.timezone)
        case _:
            assert_never(window)


AGGREGATE = planner(Aggregate, _plan)
