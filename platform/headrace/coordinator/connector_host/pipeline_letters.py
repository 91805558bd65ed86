"""The dead letters of a pipeline: finds the sinks that hold them, and reads and resends them through their connectors.

<source>.bad   whole messages that could not be decoded: they may be resent to their topic unchanged
<step>.bad     rows that failed in a step: they must be resent to another topic, because in the source's topic they
               would pass the steps before that one a second time
<sink>.bad     rows that the sink could not write: as those of a step
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from headrace.client.models import moment
from headrace.client.output_models import DeadLetterInfo, DeadLetterList, Redriven
from headrace.connect.dead_letters import DeadLetter, DeadLetters, DeadLetterSink
from headrace.core.errors import UserError, did_you_mean
from headrace.plan.chaining import plan_physical
from headrace.plan.contexts import sink_context
from headrace.plan.logical import plan_logical
from headrace.plan.physical import PhysicalPlan, SinkSpec
from headrace.spec.pipeline import Pipeline

TEXT_MAX = 200
"""Characters shown of a key or value."""
_BAD = ".bad"


@dataclass(frozen=True, slots=True)
class _Holder:
    """A sink that holds the dead letters of a node. whole: the letters are the source's messages, unchanged."""

    node: str
    sink: SinkSpec
    whole: bool


class PipelineLetters:
    """The dead letters of one pipeline; a context manager. Raises InvalidPipelineError."""

    def __init__(self, model: Pipeline) -> None:
        self._plan = plan_physical(plan_logical(model), model)
        self._holders = tuple(_holders(model, self._plan))
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def newest(self, node: str | None, limit: int) -> DeadLetterList:
        """Returns the newest letters of each sink, oldest first. node: only those of this node. limit: number of
        letters per sink. Raises UserError if the pipeline has no sink for dead letters."""
        letters = [
            _info(holder.node, letter) for holder in self._of(node) for letter in self._opened(holder).newest(limit)
        ]
        return DeadLetterList(letters=tuple(sorted(letters, key=lambda each: each.at)))

    def resend(self, node: str, to: str | None, limit: int, *, do: bool) -> Redriven:
        """Resends the next `limit` letters of a node.

        to   the topic; None: the one that each message came from
        do   False: only lists the letters that would be resent

        Raises UserError if the letters have no destination.
        """
        holders = self._of(node)
        if len(holders) > 1:
            names = ", ".join(holder.sink.node for holder in holders)
            raise UserError(f"several sinks hold the dead letters of {node}: {names}", remedy="keep them in one")
        (holder,) = holders
        if to is None and not holder.whole:
            raise UserError(
                f"the dead letters of {node} are not the messages of a source: they cannot go back there",
                remedy="name a topic with --to, and read it by a source of its own",
            )
        sent = self._opened(holder).resend(to, limit, do=do)
        return Redriven(node=node, to=sent.to, more=sent.more, done=do, empty=sent.empty)

    def _of(self, node: str | None) -> tuple[_Holder, ...]:
        found = tuple(holder for holder in self._holders if node in {None, holder.node})
        if found:
            return found
        nodes = tuple(dict.fromkeys(holder.node for holder in self._holders))
        if nodes and node is not None:
            hint = did_you_mean(node, nodes) or f"nodes that do: {', '.join(nodes)}"
            raise UserError(f"node {node!r} keeps no dead letters", remedy=hint)
        raise UserError(
            f"pipeline {self._plan.pipeline!r} keeps no dead letters",
            remedy="give a source, step or sink `on_error: {dead_letter: <topic>}`",
        )

    def _opened(self, holder: _Holder) -> DeadLetters:
        config, task = holder.sink.config, self._plan
        if not isinstance(config, DeadLetterSink):
            text = f"sink {holder.sink.node!r} cannot be read back: its connector, {holder.sink.connector}, does not"
            raise UserError(text)
        context = sink_context(holder.sink, task.pipeline, parallelism=1, terms=task.checkpoint)
        opened = config.open_dead_letters(context)
        self._open.callback(opened.close)
        return opened


def _holders(model: Pipeline, plan: PhysicalPlan) -> Iterator[_Holder]:
    for task in plan.tasks:
        for node in task.nodes:
            if isinstance(node, SinkSpec):
                fed = node.node if node.implicit else model.sinks[node.node].from_
                if fed.endswith(_BAD):
                    origin = fed.removesuffix(_BAD)
                    yield _Holder(origin, node, whole=node.implicit and origin in model.sources)


def _info(node: str, letter: DeadLetter) -> DeadLetterInfo:
    origin = None if letter.origin is None else f"{letter.origin} offset {letter.origin_position}"
    return DeadLetterInfo(
        node=node,
        topic=letter.place.topic,
        partition=letter.place.partition,
        offset=letter.position,
        at=moment(letter.at_ms),
        origin=origin,
        reason=letter.reason or None,
        key=_shortened(letter.key),
        value=_shortened(letter.value),
        bytes=len(letter.value or b""),
    )


def _shortened(value: bytes | None) -> str | None:
    if value is None:
        return None
    text = value[: 4 * TEXT_MAX].decode("utf-8", "backslashreplace")
    return text if len(text) <= TEXT_MAX and len(value) <= 4 * TEXT_MAX else f"{text[:TEXT_MAX]}.."
