"""Flows of tests/flows without anything outside: what they read lies in files, and their results are kept in memory.

A topic becomes a file for each of its partitions: offsets are lines then, and stay what they are in floors. Results
come back in the order in which they were written, as the rows that the flow's own sinks would have shown.
"""

from __future__ import annotations

import json
import random
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
from headrace.local.compile import compile_pipeline
from headrace.plan.physical import SinkSpec
from headrace.spec.pipeline import Pipeline
from headrace_connectors.files.paths import position_of
from headrace_connectors.memory import Collected, open_collected
from support.flow_inputs import TOPICS, Part, write_files
from support.flow_site import DELETED, Flow, Results, Row

PACING = "def paced(rows):\n    return rows\n"
Cut = dict[str, dict[str, int]]
"""Source -> partition -> how many of its rows lie before the cut."""


def write_inputs(folder: Path) -> None:
    """Files of the flows, their topics as files, and the module of their function."""
    write_files(folder)
    for topic, made in TOPICS.items():
        for partition, lines in enumerate(messages(made())):
            (folder / f"{topic}-{partition}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "pacing.py").write_text(PACING)


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
    """A flow over files and into memory. rows: source -> rows by partition; collected: sink -> what came there."""

    flow: Flow
    document: Mapping[str, Any]
    rows: Mapping[str, Sequence[int]]
    floors: tuple[AppliedFloor, ...]
    collected: Mapping[str, Collected]
    schemas: Mapping[str, Schema]

    @property
    def ends(self) -> Cut:
        """Behind the last row of each partition."""
        return {
            source: {str(number): count for number, count in enumerate(counts)} for source, counts in self.rows.items()
        }

    def random_cut(self, draw: random.Random) -> Cut:
        """A cut somewhere, now and then at the beginning or the end of a partition."""
        return {
            source: {str(number): _somewhere(draw, count) for number, count in enumerate(counts)}
            for source, counts in self.rows.items()
        }

    def until(self, cut: Cut | None) -> dict[str, Any]:
        """The pipeline in its file form, stopping at a cut."""
        document = json.loads(json.dumps(self.document))
        for name, rows in (cut or {}).items():
            source = document["sources"][name]
            kind = "files" if "files" in source else "generator"
            source[kind]["stop"] = {
                number: count if kind == "generator" else _line(count, self.rows[name][int(number)])
                for number, count in rows.items()
            }
        return dict(document)

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

    def clear(self) -> None:
        """Forgets what was written."""
        for each in self.collected.values():
            each._batches.clear()


def later(draw: random.Random, before: Cut, last: Cut) -> Cut:
    """A cut between two others."""
    return {
        source: {number: draw.randint(begin, last[source][number]) for number, begin in rows.items()}
        for source, rows in before.items()
    }


def _somewhere(draw: random.Random, count: int) -> int:
    return draw.choice((0, count)) if draw.random() < 0.2 else draw.randint(0, count)


def _line(line: int, lines: int) -> int:
    """The position; the end of the only file is the beginning of the next one."""
    return position_of(0, line) if line < lines else position_of(1, 0)


@contextmanager
def in_memory(flow: Flow, inputs: Path) -> Iterator[InMemory]:
    """The flow, with its memory for as long as the block takes. inputs: a folder of `write_inputs`."""
    variables = dict.fromkeys(("OUT", "STEM", "KAFKA_BROKERS"), "any") | {"RATE": "1e9", "DATA": str(inputs)}
    document = flow.load(variables).to_dict()
    rows: dict[str, Sequence[int]] = {}
    letters: dict[str, Any] = {}
    for name, source in document["sources"].items():
        if "kafka" in source:
            assert flow.topic is not None
            del source["kafka"]
            source["files"] = {"path": str(inputs / f"{flow.topic}-*.jsonl"), "partitions": 3}
        if isinstance(source.get("on_error"), dict):
            source["on_error"] = "divert"
            letters["dead"] = {"from": f"{name}.bad"}
        if "generator" in source:
            made, count = int(source["generator"]["rows"]), int(source["generator"].get("partitions", 1))
            del source["generator"]["rate"]
            rows[name] = [(made - number + count - 1) // count for number in range(count)]
        else:
            found = sorted(inputs.glob(Path(source["files"]["path"]).name))
            rows[name] = [len(path.read_text().splitlines()) for path in found]
    document["sinks"] |= letters
    for sink in document["sinks"].values():
        for field in ("kafka", "files", "format"):
            sink.pop(field, None)
    with ExitStack() as stack:
        collected = {}
        for name, sink in document["sinks"].items():
            sink["memory"] = {"name": f"{flow.name}-{name}"}
            collected[name] = stack.enter_context(open_collected(f"{flow.name}-{name}"))
        logical = compile_pipeline(Pipeline.from_dict(document)).logical
        specs = {name: logical.node(name).spec for name in collected}
        schemas = {name: spec.schema for name, spec in specs.items() if isinstance(spec, SinkSpec)}
        (node,) = document["sources"] if flow.topic is not None else ("",)
        yield InMemory(flow, document, rows, recorded_floors(flow, node), collected, schemas)
