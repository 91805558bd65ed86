"""The step that is planned: its place in the pipeline, its input, and what the planners of all verbs share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

from headrace.core.types import Schema
from headrace.operators.chain import MAIN
from headrace.operators.operator import BAD, InputNeeds, OnError, OperatorConfig
from headrace.plan.error_policy import policy_of
from headrace.plan.input_checks import partitioning_of, spread_reasons
from headrace.plan.nodes import LogicalNode, NodeInput, reference
from headrace.plan.partitioning import Partitioning
from headrace.plan.physical import StepSpec
from headrace.plan.problems import Path, Problems, UnknownInputError
from headrace.plan.stream import Stream, bad_rows
from headrace.spec.pipeline import Pipeline, StepNode
from headrace.spec.verbs.verb import Verb

_OneVerb = TypeVar("_OneVerb", bound=Verb)


class Step:
    """One step of a pipeline with the streams that it reads.

    stream    its first input, which is the only one of most verbs
    path      its path in the pipeline
    """

    def __init__(
        self, name: str, node: StepNode, inputs: Sequence[Stream], *, pipeline: Pipeline, problems: Problems
    ) -> None:
        self.name = name
        self.node = node
        self.inputs = inputs
        self.stream = inputs[0]
        self.problems = problems
        self.path: Path = ("steps", name)
        self.on_error = policy_of(node.on_error)
        self.default_parallelism = pipeline.parallelism

    # ---- problems ------------------------------------------------------------------------------------------------

    @property
    def input_name(self) -> str:
        """The node that the first input comes from."""
        return self.node.inputs[0]

    @property
    def key_text(self) -> str:
        """The key by which input rows update each other."""
        return ", ".join(self.stream.update_key or ())

    def at(self, *below: str) -> AbstractContextManager[None]:
        """Turns a user error inside the block into a problem at a path below the step."""
        return self.problems.at((*self.path, *below))

    def refuse(self, below: Path, message: str, remedy: str | None = None) -> UnknownInputError:
        """Records a problem at a path below the step, and returns the exception that leaves it."""
        return self.problems.refuse((*self.path, *below), message, remedy)

    # ---- the node ------------------------------------------------------------------------------------------------

    def passed_on(self, schema: Schema, *, deletes: bool = False, renamed: Mapping[str, str] | None = None) -> Stream:
        """The input's rows with other columns. deletes: some may become deletes; renamed: old name -> new name."""
        stream, new = self.stream, renamed or {}
        key = None if stream.update_key is None else tuple(new.get(name, name) for name in stream.update_key)
        owners = tuple(new.get(name, name) for name in stream.owner_keys)
        return Stream(schema, stream.timed, key, owners, deletes=stream.deletes or deletes)

    def outputs(self, main: Stream, sides: Mapping[str, Schema] | None = None) -> dict[str, Stream]:
        """All outputs of the step; side outputs have the input's event time, but for `bad`."""
        timed = {name: Stream(schema, self.stream.timed) for name, schema in (sides or {}).items()}
        bad = {BAD: bad_rows(self.stream.schema)} if self.on_error is OnError.DIVERT else {}
        return {MAIN: main, **timed, **bad}

    def planned(self, config: OperatorConfig, main: Stream, needs: InputNeeds | None = None) -> LogicalNode:
        """The node of a step that can be spread as the user likes. needs: those of the config, if they are computed
        already."""
        partitioning = None
        with suppress(UnknownInputError):  # a wrong partition leaves the columns as they are
            partitioning = partitioning_of(self.node.partition, self.stream, self.path, self.problems)
        parallelism = self.node.parallelism or self.default_parallelism
        spread = (partitioning,) * len(self.inputs)
        return self.placed(config, main, needs or config.needs(), parallelism=parallelism, partitionings=spread)

    def placed(
        self,
        config: OperatorConfig,
        main: Stream,
        needs: InputNeeds,
        *,
        parallelism: int,
        partitionings: Sequence[Partitioning | None],
    ) -> LogicalNode:
        """The node of a step that decides itself how the rows of each input are spread."""
        reads = [reference(text) for text in self.node.inputs]
        reasons = (reason for each in partitionings for reason in spread_reasons(each))
        return LogicalNode(
            name=self.name,
            spec=StepSpec(self.name, self.node.verb_name, config, main.schema),
            inputs=tuple(NodeInput(*read, spread) for read, spread in zip(reads, partitionings, strict=True)),
            outputs=self.outputs(main, config.side_outputs()),
            parallelism=parallelism,
            not_replayable=tuple(dict.fromkeys((*needs.not_replayable, *reasons))),
            needs_order=needs.order or needs.fails,
            needs_time=needs.time,
        )


Planner = Callable[[Verb, Step], LogicalNode]


def planner(model: type[_OneVerb], plan: Callable[[_OneVerb, Step], LogicalNode]) -> tuple[type[Verb], Planner]:
    """A line of the table: a verb's model and its planner."""

    def planned(verb: Verb, step: Step) -> LogicalNode:
        assert isinstance(verb, model), "the table is read by the verb's class"
        return plan(verb, step)

    return model, planned
