"""Flows of tests/flows without anything outside: what they read lies in files, and their results are kept in memory.

A topic becomes a file for each of its partitions: offsets are lines then, and stay what they are in floors. Results
come back in the order in which they were written, as the rows that the flow's own sinks would have shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from headrace.core.batch import OP, visible_columns
from headrace.core.source_state import AppliedFloor
from headrace.core.types import Schema
from headrace.formats.json import JsonFormat
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.physical import SinkSpec
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.memory import Collected, open_collected
from support.flows.cuts import Cut, ends_of, stopping
from support.flows.inputs import TOPICS, Part, write_files
from support.flows.site import DELETED, Flow, Results, Row


def write_inputs(folder: Path) -> None:
    """Files of the flows, their topics as files, and the module of their function."""
    write_files(folder)
    for topic, made in TOPICS.items():
        for partition, lines in enumerate(messages(made())):
            (folder / f"{topic}-{partition}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def messages(parts: Sequence[Part]) -> list[list[str]]:
    """By partition, all parts one after the other."""
    partitions = range(len(parts[0].messages))
    return [[line for part in parts for line in part.messages[partition]] for partition in partitions]


def recorded_floors(flow: Flow, topic: str) -> tuple[AppliedFloor, ...]:
    """The floors that a live run of it records (`Stage.expected_floors`), for a log of that topic."""
    if flow.topic is None:
        return ()
    (source,) = flow.document["sources"]
    parts = TOPICS[flow.topic]()
    found = []
    for partition in range(len(parts[0].messages)):
        begins = accumulate((len(part.messages[partition]) for part in parts), initial=0)
        for part, begin in zip(parts, begins, strict=False):
            if partition in part.floors:
                found.append(AppliedFloor(source, topic, partition, begin, part.floors[partition]))
    return tuple(found)


@dataclass(frozen=True)
class InMemory:
    """A flow over files and into memory. ends: of what it reads; collected: sink -> what came there."""

    flow: Flow
    document: Mapping[str, Any]
    ends: Cut
    floors: tuple[AppliedFloor, ...]
    collected: Mapping[str, Collected]
    schemas: Mapping[str, Schema]

    def until(self, cut: Cut | None) -> dict[str, Any]:
        """The pipeline in its file form, stopping at a cut."""
        return stopping(self.document, cut, self.ends)

    def written(self) -> Results:
        """All rows in the order they were written in."""
        return {sink: list(self._rows(sink)) for sink in self.collected}

    def _rows(self, sink: str) -> Iterator[Row]:
        schema = self.schemas[sink]
        encoder = JsonFormat().open_encoder(schema)
        for batch in self.collected[sink].batches():
            visible = batch.select(visible_columns(batch))
            rows = [json.loads(message) for message in encoder.encode(visible).to_pylist()]
            deleted = batch[OP].to_list() if OP in batch.columns else [None] * len(rows)
            for row, op in zip(rows, deleted, strict=True):
                if sink == "dead":
                    yield {name: str(row[name]) for name in ("partition", "offset")}
                elif op:
                    yield {DELETED: row}
                else:
                    yield row


@contextmanager
def in_memory(flow: Flow, inputs: Path) -> Iterator[InMemory]:
    """The flow, with its memory for as long as the block takes. inputs: a folder of `write_inputs`."""
    variables = dict.fromkeys(("OUT", "STEM", "KAFKA_BROKERS"), "any") | {"DATA": str(inputs)}
    document = flow.load(variables).to_dict()
    letters: dict[str, Any] = {}
    for name, source in document["sources"].items():
        if "kafka" in source:
            assert flow.topic is not None
            del source["kafka"]
            source["files"] = {"path": str(inputs / f"{flow.topic}-*.jsonl"), "partitions": 3}
        if isinstance(source.get("on_error"), dict):
            source["on_error"] = "divert"
            letters["dead"] = {"from": f"{name}.bad"}
    document["sinks"] |= letters
    for sink in document["sinks"].values():
        for field in ("kafka", "files", "format"):
            sink.pop(field, None)
    with ExitStack() as stack:
        collected = {}
        for name, sink in document["sinks"].items():
            sink["memory"] = {"name": f"{flow.name}-{name}"}
            collected[name] = stack.enter_context(open_collected(f"{flow.name}-{name}"))
        logical = compile_pipeline(pipeline_from_dict(document)).logical
        specs = {name: logical.node(name).spec for name in collected}
        schemas = {name: spec.schema for name, spec in specs.items() if isinstance(spec, SinkSpec)}
        (node,) = document["sources"] if flow.topic is not None else ("",)
        yield InMemory(flow, document, ends_of(document), recorded_floors(flow, node), collected, schemas)
