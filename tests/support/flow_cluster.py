"""Flows of tests/flows on a session cluster: run straight, killed, rescaled and saved, each to its end.

    Flow      a pipeline file of tests/flows, and what its results are compared by
    Stage     one run of it: fresh topics and folders, jobs one after the other, and the rows that all of them wrote

A run whose source ended before it could be disturbed is `TooQuickError`: `disturbed` runs it again, more slowly.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.api.cluster import submit
from headrace.checkpoint.savepoint import find
from headrace.client.models import FINAL_STATES, JobStatus
from headrace.core.errors import HeadraceError
from headrace.core.source_state import SourceState
from headrace.local.broker import EmbeddedBroker
from headrace.local.compile import compile_pipeline
from headrace.spec.load import load_pipeline
from headrace.spec.pipeline import Pipeline
from support.broker import consume_all, create_topic, produce, unique_topic
from support.cluster import Cluster, kill
from support.flow_inputs import SAYS_NOTHING, TOPICS, Part, write_files
from support.running import wait_until

FLOWS = Path(__file__).parent.parent / "flows"
DELETED = "__deleted"
"""Instead of its columns: the key of a row that was deleted."""
ROWS = 3_000
"""Rows of a generator in a flow, about."""
AT_ONCE = 1e9
CHECKPOINTS = {"interval": "300ms"}
RESTART = {"strategy": "fixed-delay", "attempts": 10, "delay": "100ms"}
PACING = """\
import time

import polars as pl

ROWS_PER_SECOND = {rate!r}


def paced(rows: pl.DataFrame) -> pl.DataFrame:
    time.sleep(len(rows) / ROWS_PER_SECOND)
    return rows
"""

Row = dict[str, Any]
Results = dict[str, list[Row]]
"""Rows by sink."""


class TooQuickError(Exception):
    """The run had ended before something could happen to it."""


@dataclass(frozen=True)
class Flow:
    """`tests/flows/<name>.yaml`."""

    name: str

    @property
    def file(self) -> Path:
        """Its file."""
        return FLOWS / f"{self.name}.yaml"

    @property
    def golden(self) -> Path:
        """Its results: a line per row, `["sink", {row}]`, sorted."""
        return FLOWS / "golden" / f"{self.name}.jsonl"

    def load(self, variables: Mapping[str, str]) -> Pipeline:
        """With `${VARIABLES}` replaced."""
        return load_pipeline(self.file, environ=variables).pipeline

    @cached_property
    def document(self) -> dict[str, Any]:
        """The file form, with any values for its variables."""
        return self.load(dict.fromkeys(("OUT", "DATA", "STEM", "KAFKA_BROKERS"), "any") | {"RATE": "1"}).to_dict()

    @cached_property
    def update_keys(self) -> dict[str, tuple[str, ...]]:
        """Sink -> key of its rows, for sinks that take updating rows."""
        logical = compile_pipeline(Pipeline.from_dict(self.document)).logical
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


class Stage:
    """One run of a flow in a folder of its own. `seconds`: how long its sources take at least, None: as they can."""

    def __init__(
        self, flow: Flow, cluster: Cluster, broker: Callable[[], EmbeddedBroker], folder: Path, seconds: float | None
    ) -> None:
        self.flow, self.cluster, self._broker = flow, cluster, broker
        self.folder = folder
        self.stem = unique_topic(flow.name)
        self.jobs: list[str] = []
        self._seconds = seconds
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
    def job(self) -> str:
        """The one that runs now."""
        return self.jobs[-1]

    @property
    def _topic(self) -> str:
        return f"{self.stem}-{self.flow.topic}"

    @cached_property
    def parts(self) -> list[Part]:
        """What comes through Kafka."""
        return [] if self.flow.topic is None else TOPICS[self.flow.topic]()

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def submit(self, parallelism: int = 2, *, savepoint: str | None = None, at_once: bool = False) -> str:
        """Gives it to the cluster. `at_once`: whatever `seconds` says."""
        rate = AT_ONCE if at_once or self._seconds is None else ROWS / self._seconds
        (self.folder / "pacing.py").write_text(PACING.format(rate=rate))
        variables = {
            "RATE": str(rate),
            "OUT": str(self.folder / "out"),
            "DATA": str(self.folder),
            "STEM": self.stem,
            "KAFKA_BROKERS": self._broker().bootstrap if self._uses_kafka else "",
        }
        document = self.flow.load(variables).to_dict()
        document |= {
            "parallelism": parallelism,
            "checkpoint": document.get("checkpoint", {}) | CHECKPOINTS,
            "restart": RESTART,
        }
        job = submit(
            Pipeline.from_dict(document),
            from_savepoint=savepoint,
            py_files=[self.folder / "pacing.py"],
            coordinator=self.cluster.client.url,
        )
        self.jobs.append(job)
        return job

    @property
    def _uses_kafka(self) -> bool:
        return self.flow.topic is not None or "kafka" in self.flow.results.values()

    def status(self) -> JobStatus:
        """Of the job that runs now."""
        return self.cluster.client.status(self.job)

    def wait(self, is_so: Callable[[JobStatus], bool], what: str) -> JobStatus:
        """Until it is so. TooQuickError where it ended before."""
        seen: list[JobStatus] = []

        def look() -> bool:
            seen[:] = [self.status()]
            assert seen[0].state != "FAILED", seen[0].failure
            return is_so(seen[0]) or seen[0].state in FINAL_STATES

        try:
            wait_until(look, f"{self.flow.name}: {what}")
        except AssertionError as error:
            raise AssertionError(f"{error}; found {seen[0].model_dump_json(indent=1)}") from error
        if not is_so(seen[0]):
            raise TooQuickError(f"{self.flow.name} was {seen[0].state} before {what}")
        return seen[0]

    def checkpointed(self) -> JobStatus:
        """Once it runs and has a checkpoint that is newer than those there are now."""
        before = _epoch(self.status())
        return self.wait(lambda status: status.state == "RUNNING" and _epoch(status) > before, "a checkpoint")

    def kill_slot(self) -> None:
        """SIGKILL of one of its slots; returns when a new attempt runs."""
        attempt = self.wait(lambda status: status.state == "RUNNING", "running").attempt
        slots = self.cluster.busy_slots(self.job)
        if not slots:
            raise TooQuickError(f"{self.flow.name} has no slot any more")
        kill(slots[attempt % len(slots)])
        self.wait(lambda status: status.state == "RUNNING" and status.attempt > attempt, "running again")

    def rescale(self, parallelism: int) -> None:
        """Goes on with another parallelism."""
        with self._while_it_runs():
            self.cluster.client.wait_trigger(self.cluster.client.rescale(self.job, parallelism))
        assert self.status().parallelism == parallelism

    def stop(self, *, savepoint: bool = True, drain: bool = False) -> str:
        """Stops it at a cut; the path to go on from."""
        place = str(self.folder / "savepoints") if savepoint else None
        with self._while_it_runs():
            done = self.cluster.client.wait_trigger(self.cluster.client.stop(self.job, place, drain=drain))
        assert done.path is not None
        self.cluster.wait_state(self.job, "FINISHED")
        if not drain and find(done.path).manifest.drained:
            raise TooQuickError(f"{self.flow.name} had read everything before it was stopped")
        return done.path

    @contextmanager
    def _while_it_runs(self) -> Iterator[None]:
        """What is refused because the job ended meanwhile came too late."""
        self.wait(lambda status: status.state == "RUNNING", "running")
        try:
            yield
        except HeadraceError as error:
            if self.status().state in FINAL_STATES:
                raise TooQuickError(str(error)) from error
            raise

    def finish(self) -> None:
        """To the end of its input."""
        if self.flow.topic is not None:
            self.stop(savepoint=False, drain=True)
        self.cluster.wait_state(self.job, "FINISHED")

    def cancel(self) -> None:
        """Ends it, however it stands."""
        if self.jobs and self.status().state not in FINAL_STATES:
            self.cluster.client.wait_trigger(self.cluster.client.cancel(self.job))

    # ---- input ---------------------------------------------------------------------------------------------------

    def feed(self, number: int) -> None:
        """Writes one of the parts."""
        self._begun.append(list(self._fed))
        for partition, messages in enumerate(self.parts[number].messages):
            self._produce(partition, messages)

    def _produce(self, partition: int, messages: Sequence[str]) -> None:
        produce(self._broker(), self._topic, messages, partition=partition)
        self._fed[partition] += len(messages)

    def settle(self, number: int) -> None:
        """Until parts up to this one have been read, time stands where it should, and a checkpoint has all that."""
        part, fed = self.parts[number], list(self._fed)
        (source,) = self.flow.document["sources"]

        def stands(status: JobStatus) -> bool:
            if part.watermark is None:
                return True
            # where all partitions are silent nothing moves: the one that spoke last goes on until the others are there
            self._produce(part.speaker, [SAYS_NOTHING])
            return next((node.watermark for node in status.nodes if node.node == source), None) == part.watermark

        def is_read() -> bool:
            read = self._read()
            return bool(read) and all(at >= end for at, end in zip(read, fed, strict=True))

        self.wait(lambda status: status.state == "RUNNING" and stands(status) and is_read(), f"part {number} was read")
        # the two after it: one that was under way when it was so may have been cut before
        self.checkpointed()
        self.checkpointed()

    def _read(self) -> list[int]:
        """Positions in the newest checkpoint, by partition."""
        state = self._source_state()
        return [] if state is None else [split.position for split in state.splits]

    def _source_state(self) -> SourceState | None:
        """Of the only source, in the newest checkpoint."""
        checkpoint = self.status().checkpoint
        if checkpoint is None:
            return None
        (state,) = find(checkpoint.path).manifest.sources.values()
        return state

    def floors(self) -> list[tuple[int, int, int]]:
        """(partition, position, floor) of the floors in the newest checkpoint that any row came after."""
        state = self._source_state()
        assert state is not None
        read = {split.partition: split.position for split in state.splits}
        return sorted(
            (each.partition, each.position, each.floor)
            for each in state.applied
            if each.position < read[each.partition]
        )

    def expected_floors(self) -> list[tuple[int, int, int]]:
        """Those that the parts of the input lead to."""
        found = []
        for number, part in enumerate(self.parts):
            for partition, floor in part.floors.items():
                found.append((partition, self._begun[number][partition], floor))
        return sorted(found)

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


def _epoch(status: JobStatus) -> int:
    return 0 if status.checkpoint is None else status.checkpoint.epoch


def _bytes(header: tuple[str, str | bytes | None]) -> tuple[str, bytes]:
    name, value = header
    return name, os.fsencode(value or b"")
