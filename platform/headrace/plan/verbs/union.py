"""Plans `union`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core.types import Schema
from headrace.operators.union import UnionConfig
from headrace.plan.nodes import LogicalNode
from headrace.plan.verbs.step import Step, planner
from headrace.spec.verbs.union import Union


def _plan(verb: Union, step: Step) -> LogicalNode:
    """The node of a step that reads several nodes with the same columns."""
    first = step.stream.schema
    named = list(zip(verb.inputs, step.inputs, strict=True))
    with step.problems.every() as check:
        for index, (name, stream) in enumerate(named):
            below = (verb.NAME, str(index))
            with check():
                if message := _difference(verb.inputs[0], first, name, stream.schema):
                    raise step.refuse(below, message)
    if len({stream.timed for stream in step.inputs}) > 1:
        untimed = next(name for name, stream in named if not stream.timed)
        raise step.refuse(
            (verb.NAME,),
            f"the rows of {untimed} have no event time, and those of others have",
            "give its source a `time:`",
        )
    config = UnionConfig(node=step.name, inputs=verb.inputs, input=first)
    return step.planned(config, step.passed_on(_nullable_union([stream.schema for stream in step.inputs])))


def _difference(first: str, expected: Schema, name: str, schema: Schema) -> str | None:
    """The first difference between the columns of two inputs."""
    for field in expected:
        other = schema.get(field.name)
        if other is None:
            return f"{name} has no column {field.name!r}, and {first} has"
        if other.type != field.type:
            return f"column {field.name!r} is {other.type} in {name} and {field.type} in {first}"
    strange = next((field for field in schema if field.name not in expected), None)
    return None if strange is None else f"{first} has no column {strange.name!r}, and {name} has"


def _nullable_union(schemas: Sequence[Schema]) -> Schema:
    """The first schema's columns; nullable if any input's column is."""
    first, *others = schemas
    return Schema(
        tuple(
            replace(field, nullable=field.nullable or any(other.field(field.name).nullable for other in others))
            for field in first
        )
    )


UNION = planner(Union, _plan)
