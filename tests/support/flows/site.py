"""Flows of tests/flows, and the place of one run of them: what it reads, and what it wrote.

Flow       a pipeline file of tests/flows, and what its results are compared by
FlowSite   fresh topics and folders for a run of it; which engine runs it is not known here
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from headrace.core.source_state import AppliedFloor
from headrace.local.engine.compile import compile_pipeline
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.load_file import load_pipeline
from headrace.spec.reading.read import pipeline_from_dict
from headrace_dev.broker import EmbeddedBroker
from support.flows.inputs import TOPICS, Part, write_files
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS

FLOWS = Path(__file__).parents[2] / "flows"
DELETED = "__deleted"
"""Instead of its columns: the key of a row that was deleted."""

Row = dict[str, Any]
Results = dict[str, list[Row]]
"""Rows by sink."""


@dataclass(frozen=True)
class Flow:
    """`tests/flows/<name>.yaml`, or a file of another folder."""

    name: str
    folder: Path = FLOWS

    @property
    def file(self) -> Path:
        """Its file."""
        return self.folder / f"{self.name}.yaml"

    @property
    def golden(self) -> Path:
        """Its results: a line per row, `["sink", {row}]`, sorted."""
        return self.folder / "golden" / f"{self.name}.jsonl"

    def load(self, variables: Mapping[str, str]) -> Pipeline:
        """With `${VARIABLES}` replaced."""
        return load_pipeline(self.file, environ=variables).pipeline

    @cached_property
    def document(self) -> dict[str, Any]:
        """The file form, with any values for its variables."""
        return self.load(dict.fromkeys(("OUT", "DATA", "STEM", "KAFKA_BROKERS"), "any")).to_dict()

    @cached_property
    def update_keys(self) -> dict[str, tuple[str, ...]]:
        """Sink -> key of its rows, for sinks that take updating rows."""
        logical = compile_pipeline(pipeline_from_dict(self.document)).logical
        found = {sink: logical.node(sink).spec.update_key for sink in self.document["sinks"]}  # type: ignore[union-attr]
        return {sink: tuple(key) for sink, key in found.items() if key is not None}

    def canonical(self, rows: Results) -> list[str]:
        """The lines of a golden: rows that are there twice count once, updating ones by the last of their key."""
        lines = set()
        for sink, found in rows.items():
            key = self.update_keys.get(sink)
            counted = found if key is None else [row for row in _latest(found, key) if DELETED not in row]
            lines |= {json.dumps([sink, row], sort_keys=True, ensure_ascii=False) for row in counted}
        return sorted(lines)

    def repeated(self, rows: Results) -> Results:
        """Rows of sinks that only append which are there more than once."""
        found: Results = {}
        for sink in set(rows) - set(self.update_keys):
            counts = Counter(json.dumps(row, sort_keys=True) for row in rows[sink])
            found[sink] = [json.loads(text) for text, count in counts.items() if count > 1]
        return found

    @cached_property
    def topic(self) -> str | None:
        """Name in TOPICS of what it reads from Kafka, None where it reads none."""
        sources = [source["kafka"]["topic"] for source in self.document["sources"].values() if "kafka" in source]
        return str(sources[0]).rpartition("-")[2] if sources else None

    @cached_property
    def results(self) -> dict[str, str]:
        """Sink -> its connector. Dead letters are a sink as well."""
        found = {name: "kafka" if "kafka" in sink else "files" for name, sink in self.document["sinks"].items()}
        letters = [source for source in self.document["sources"].values() if isinstance(source.get("on_error"), dict)]
        return found | ({"dead": "kafka"} if letters else {})


def _latest(rows: Sequence[Row], key: Sequence[str]) -> list[Row]:
    latest = {}
    for row in rows:
        values = row.get(DELETED, row)
        latest[tuple(json.dumps(values[name]) for name in key)] = row
    return list(latest.values())


def flows() -> list[Flow]:
    """All of them, by name."""
    return [Flow(path.stem) for path in sorted(FLOWS.glob("*.yaml"))]


class FlowSite:
    """A folder with files, topics, and where the results go."""

    def __init__(self, flow: Flow, broker: Callable[[], EmbeddedBroker], folder: Path) -> None:
        self.flow, self._broker = flow, broker
        self.folder = folder
        self.stem = unique_topic(flow.name)
        self._fed = [0, 0, 0]
        self._begun: list[list[int]] = []
        folder.mkdir(parents=True)
        write_files(folder)
        if "kafka" in flow.results.values():
            for sink in (name for name, connector in flow.results.items() if connector == "kafka"):
                create_topic(broker(), f"{self.stem}-{sink}")
        if flow.topic is not None:
            create_topic(broker(), self._topic, len(self.parts[0].messages))

    @property
    def _topic(self) -> str:
        return f"{self.stem}-{self.flow.topic}"

    @cached_property
    def parts(self) -> list[Part]:
        """What comes through Kafka."""
        return [] if self.flow.topic is None else TOPICS[self.flow.topic]()

    @property
    def _uses_kafka(self) -> bool:
        return self.flow.topic is not None or "kafka" in self.flow.results.values()

    def document(self) -> dict[str, Any]:
        """The flow's file form, here."""
        variables = {
            "OUT": str(self.folder / "out"),
            "DATA": str(self.folder),
            "STEM": self.stem,
            "KAFKA_BROKERS": self._broker().bootstrap if self._uses_kafka else "",
        }
        return self.flow.load(variables).to_dict()

    # ---- input -----------------------------------------------------------------------------------------------------

    def feed(self, number: int) -> None:
        """Writes one of the parts."""
        self._begun.append(list(self._fed))
        for partition, messages in enumerate(self.parts[number].messages):
            self._produce_at_once(partition, messages)

    def _produce_at_once(self, partition: int, messages: Sequence[str]) -> None:
        """All of them in one batch: however slow this host is, the partition does not fall silent between two."""
        patience_ms = int(WAIT_SECONDS * 1_000)
        producer = Producer(
            {
                "bootstrap.servers": self._broker().bootstrap,
                "linger.ms": patience_ms,  # until it is flushed
                "socket.timeout.ms": patience_ms,
                "request.timeout.ms": patience_ms,
                "log_level": 3,
            }
        )
        for message in messages:
            producer.produce(self._topic, message.encode(), partition=partition)
        assert producer.flush(WAIT_SECONDS) == 0, "the broker takes no rows"
        self._fed[partition] += len(messages)

    def _produce(self, partition: int, messages: Sequence[str]) -> None:
        produce(self._broker(), self._topic, messages, partition=partition)
        self._fed[partition] += len(messages)

    def expected_floors(self) -> list[tuple[int, int, int]]:
        """Those that the parts of the input lead to."""
        found = []
        for number, part in enumerate(self.parts):
            for partition, floor in part.floors.items():
                found.append((partition, self._begun[number][partition], floor))
        return sorted(found)

    def recorded_floors(self) -> tuple[AppliedFloor, ...]:
        """The same as a replay takes them (`--floors`)."""
        (source, *_) = self.flow.document["sources"]
        return tuple(AppliedFloor(source, self._topic, *recorded) for recorded in self.expected_floors())

    # ---- output --------------------------------------------------------------------------------------------------

    def written(self) -> Results:
        """All rows in the order they were written in, repeated ones too."""
        return {
            sink: list(self._file_rows(sink) if connector == "files" else self._topic_rows(sink))
            for sink, connector in self.flow.results.items()
        }

    def _file_rows(self, sink: str) -> Iterator[Row]:
        for path in sorted((self.folder / "out" / sink).glob("part-*.json")):
            yield from map(json.loads, path.read_text().splitlines())

    def _topic_rows(self, sink: str) -> Iterator[Row]:
        for record in consume_all(self._broker(), f"{self.stem}-{sink}"):
            if sink == "dead":
                headers = {name: bytes(value or b"").decode() for name, value in map(_bytes, record.headers)}
                yield {name: headers[name] for name in ("partition", "offset")}
            elif record.value is None:
                yield {DELETED: json.loads(record.key or b"null")}
            else:
                yield json.loads(record.value)


def _bytes(header: tuple[str, str | bytes | None]) -> tuple[str, bytes]:
    name, value = header
    return name, os.fsencode(value or b"")
