"""A step that keeps restored rows as they are, for tests of files that checkpoints of several attempts name.

    known: {from: rows, remember: [k]}

It passes the first row of each key on. The keys are its state: new ones of a batch are a chunk. Chunks are merged now
and then, but not with restored ones.

As `sitecustomize` of an interpreter (`python_path`) the verb is known to `headrace` commands and what they start.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from headrace.core.types import Schema, polars_type
from headrace.operators.operator import Collector, InputNeeds, Operator, OperatorConfig
from headrace.operators.state_shape import StateShape
from headrace.plan.nodes import LogicalNode
from headrace.plan.partitioning import Hash
from headrace.plan.verbs.step import Step, planner
from headrace.plan.verbs.table import PLANNERS
from headrace.spec.columns import ColumnList
from headrace.spec.verbs.table import VERBS
from headrace.spec.verbs.verb import Form, Verb
from headrace.state.snapshot import Chunk, RestoredStates, StateKind, StateSnapshot

STATE = "keys"
CHUNKS_MAX = 8
"""Chunks without an origin, before they are merged."""


class Remember(Verb):
    """`remember: [key, ..]`."""

    NAME = "remember"
    FORM = Form.VALUE

    keys: ColumnList

    def file_form(self) -> dict[str, Any]:
        """The keys."""
        return {self.NAME: list(self.keys)}


@dataclass(frozen=True, slots=True)
class RememberConfig(OperatorConfig):
    """The step's config."""

    node: str
    input: Schema
    keys: tuple[str, ...]

    def output(self) -> Schema:
        """The columns of its input."""
        return self.input

    def needs(self) -> InputNeeds:
        """Nothing."""
        return InputNeeds()

    def describe(self) -> str:
        """The keys."""
        return ", ".join(self.keys)

    def states(self) -> tuple[StateShape, ...]:
        """The keys."""
        types = {item.name: str(polars_type(item.type)) for item in self.input}
        return (StateShape(STATE, StateKind.KEYED, tuple((name, types[name]) for name in self.keys)),)

    def open(self) -> Operator:
        """The operator."""
        return RememberOperator(self.keys)


class RememberOperator:
    """Keeps the keys that it has seen."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._numbers = itertools.count()
        self._chunks: list[Chunk] = []

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Passes the rows on whose keys are new."""
        fresh = batch.unique(self._keys, keep="first", maintain_order=True)
        for chunk in self._chunks:
            fresh = fresh.join(chunk.frame, on=self._keys, how="anti")
        if fresh.height:
            self._chunks.append(Chunk(next(self._numbers), fresh.select(self._keys)))
            self._merge()
            out.emit(fresh)

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Passes the watermark on."""
        return watermark

    def _merge(self) -> None:
        fresh = [chunk for chunk in self._chunks if chunk.origin is None]
        if len(fresh) > CHUNKS_MAX:
            merged = Chunk(next(self._numbers), pl.concat([chunk.frame for chunk in fresh]))
            self._chunks = [*(chunk for chunk in self._chunks if chunk.origin is not None), merged]

    def snapshot(self) -> Sequence[StateSnapshot]:
        """The keys."""
        return [StateSnapshot(STATE, StateKind.KEYED, tuple(self._keys), tuple(self._chunks))]

    def restore(self, states: RestoredStates) -> None:
        """Takes the keys over, each frame as a chunk."""
        self._chunks = [Chunk(next(self._numbers), each.frame, origin=each.origin) for each in states.get(STATE, ())]

    def close(self) -> None:
        """Nothing."""


def _plan(verb: Remember, step: Step) -> LogicalNode:
    config = RememberConfig(step.name, step.stream.schema, tuple(verb.keys))
    return step.placed(
        config,
        step.passed_on(config.output()),
        config.needs(),
        parallelism=step.node.parallelism or step.default_parallelism,
        partitionings=(Hash(config.keys),),
    )


def register(set_item: Callable[[dict[Any, Any], Any, Any], None]) -> None:
    """Makes `remember` a verb. set_item: sets a key of a table, such as `MonkeyPatch.setitem`."""
    model, planned = planner(Remember, _plan)
    set_item(VERBS, Remember.NAME, Remember)
    set_item(PLANNERS, model, planned)


def python_path(folder: Path) -> list[Path]:
    """Folders for PYTHONPATH, by which every interpreter knows the verb. One of them is made in `folder`."""
    folder.mkdir()
    text = (
        "from support.remembering import register\n\nregister(lambda table, key, value: table.update({key: value}))\n"
    )
    (folder / "sitecustomize.py").write_text(text)
    return [folder, Path(__file__).parents[1]]
