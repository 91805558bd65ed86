"""One pipeline, Kafka to Kafka, on a cluster: fed while it runs, its output compared with the reference.

    events ─┬─> per_key (windows) ─> windows
            ├─> kept ─> doubled (map) ─> kept_rows
            ├─> per_key.late ─> late_rows
            └─> events.bad (dead letters)

Where sinks are at-least-once, a row may be there twice, but then it is the same row; exactly-once, it may not.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from confluent_kafka import Consumer, Message, TopicPartition

from headrace.local.topics import topics as broker_topics
from support.clusters.session import Cluster
from support.kafka.broker import Broker, create_topic, unique_topic
from support.kafka.open_transactions import require_none_open
from support.kafka.steady_feed import Expected, SteadyFeed, Totals
from support.processes.running import WAIT_SECONDS, wait_until

LOG = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")

PIPELINE = """\
name: {name}
parallelism: {parallelism}
checkpoint: {{interval: {interval}{storage}}}
restart: {{strategy: exponential-delay, initial: 200ms, max: 500ms}}
sources:
  events:
    kafka:
      brokers: "{brokers}"
      pattern: "{stem}-in-.*"
      start: earliest
      properties: {{topic.metadata.refresh.interval.ms: 500}}
    format: json
    schema:
      id: string not null
      key: string not null
      value: int64 not null
      at: timestamp not null
    time: {{column: at, out_of_orderness: 2s}}
    on_error: {on_error}
steps:
  {window}:
    from: events
    key_by: [key]
    window: {{tumbling: 10s}}
    aggregate:
      rows: count(*)
      total: sum(value)
  kept:
    from: events
    filter: value % 3 <> 0
  doubled:
    from: {doubled_from}
    map: {{function: "doubling:doubled", schema: {{id: string not null, doubled: int64 not null}}}}
{added}sinks:
  windows:
    from: {window}
    {sink}: {{brokers: "{brokers}", topic: {stem}-windows, key: [key], delivery: {delivery}{sink_fields}}}
    format: json
  kept_rows:
    from: doubled
    {sink}: {{brokers: "{brokers}", topic: {stem}-kept, key: [id], delivery: {delivery}{sink_fields}}}
    format: json
  late_rows:
    from: {window}.late
    {sink}: {{brokers: "{brokers}", topic: {stem}-late, key: [id], delivery: {delivery}{sink_fields}}}
    format: json
"""
DOUBLING = """\
import polars as pl


def doubled(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("id", doubled=pl.col("value") * 2)
"""


@dataclass(slots=True)
class Seen:
    """What the output topics hold, after de-duplication. `contradictions`: rows that came again as others."""

    windows: dict[tuple[str, int], Totals] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    bad: set[tuple[str, int, int]] = field(default_factory=set)
    contradictions: list[str] = field(default_factory=list)


class Output:
    """Reads the output topics as they grow."""

    def __init__(self, brokers: str, stem: str, *, exactly_once: bool = False) -> None:
        self._stem = stem
        self._exactly_once = exactly_once
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": f"{stem}-tests",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 10,
                "log_level": 3,
            }
        )
        names = [f"{stem}-{name}" for name in ("windows", "kept", "late", "dead")]
        partitions = [(name, number) for name in names for number in broker_topics.partitions_of(brokers, name)]
        self._consumer.assign([TopicPartition(name, number, 0) for name, number in partitions])
        self.seen = Seen()

    def close(self) -> None:
        """Ends it."""
        self._consumer.close()

    def read(self) -> Seen:
        """All that has come until now, and a little time for more."""
        while messages := self._consumer.consume(2_000, 0.05):
            for message in messages:
                assert message.error() is None, message.error()
                self._take(message)
        return self.seen

    def _take(self, message: Message) -> None:
        kind = (message.topic() or "").removeprefix(f"{self._stem}-")
        if kind == "dead":
            given = message.headers() or []
            headers = dict(given.items() if isinstance(given, dict) else given)
            topic, partition, offset = (_text(headers[name]) for name in ("topic", "partition", "offset"))
            self._add(self.seen.bad, (topic, int(partition), int(offset)))
            return
        row = json.loads(message.value() or b"")
        if kind == "windows":
            start = int(datetime.fromisoformat(row["window_start"]).astimezone(UTC).timestamp() * 1_000)
            self._keep(self.seen.windows, (row["key"], start), Totals(row["rows"], row["total"]))
        elif kind == "kept":
            self._keep(self.seen.kept, row["id"], row["doubled"])
        else:
            self._add(self.seen.late, row["id"])

    def _add(self, rows: set[K], row: K) -> None:
        if self._exactly_once and row in rows:
            self.seen.contradictions.append(f"{row} is there twice")
        rows.add(row)

    def _keep(self, rows: dict[K, V], key: K, value: V) -> None:
        if self._exactly_once and key in rows:
            self.seen.contradictions.append(f"{key} is there twice")
        if rows.setdefault(key, value) != value:
            self.seen.contradictions.append(f"{key}: {rows[key]} and {value}")


def _text(header: str | bytes | None) -> str:
    return header.decode() if isinstance(header, bytes) else header or ""


class Flow:
    """The pipeline's files, topics, feed and output; `job` is the one that runs it now.

    `job_brokers`: what the job calls the brokers, where that is not what this process does.
    `sink`, `sink_fields`: the connector, and fields of its own.
    `copies`: of each topic, on as many brokers. `interval`: of checkpoints.
    """

    def __init__(
        self,
        cluster: Cluster,
        broker: Broker,
        name: str = "flow",
        storage: str = "",
        *,
        job_brokers: str = "",
        exactly_once: bool = False,
        sink: str = "kafka",
        sink_fields: str = "",
        copies: int = 1,
        interval: str = "1s",
    ) -> None:
        self.broker, self.name = broker, name
        self._sink, self._sink_fields = sink, f", {sink_fields}" if sink_fields else ""
        self._delivery = "exactly-once" if exactly_once else "at-least-once"
        self.stem = unique_topic(name)
        self._storage, self._interval = storage, interval
        self._job_brokers = job_brokers or broker.bootstrap
        self.inputs = {f"{self.stem}-in-a": 2, f"{self.stem}-in-b": 2}
        for topic, partitions in self.inputs.items():
            create_topic(broker, topic, partitions, copies=copies)
        for kind in ("windows", "kept", "late", "dead"):
            create_topic(broker, f"{self.stem}-{kind}", 2, copies=copies)
        self.feed = SteadyFeed(broker.bootstrap, self.inputs)
        self.output = Output(broker.bootstrap, self.stem, exactly_once=exactly_once)
        self.job = ""
        self._attempt_before = 0
        self._again_s: float | None = None
        self.move_to(cluster)

    def move_to(self, cluster: Cluster) -> None:
        """Submits to another cluster from now on; topics, feed and output stay."""
        self.cluster = cluster
        (cluster.folder / "doubling.py").write_text(DOUBLING)

    def file(self, parallelism: int = 2, *, window: str = "per_key", added: str = "", bad: str = "") -> str:
        """Writes the pipeline and returns its path. `window`: the step's name; `added`: a step before the map."""
        text = PIPELINE.format(
            name=self.name,
            parallelism=parallelism,
            interval=self._interval,
            storage=f', storage: "{self._storage}"' if self._storage else "",
            brokers=self._job_brokers,
            stem=self.stem,
            sink=self._sink,
            sink_fields=self._sink_fields,
            delivery=self._delivery,
            on_error=bad or f"{{dead_letter: {self.stem}-dead}}",
            window=window,
            added=f"  {added}: {{from: kept, filter: value > 0}}\n" if added else "",
            doubled_from=added or "kept",
        )
        path = self.cluster.folder / f"{self.name}.yaml"
        path.write_text(text)
        return str(path)

    def submit(self, *arguments: str, parallelism: int = 2) -> str:
        """Submits it, and waits until it runs."""
        done = self.cluster.headrace("submit", self.file(parallelism), *arguments)
        assert done.code == 0, done.err
        self.job = done.out.strip()
        self.cluster.wait_state(self.job, "RUNNING")
        return self.job

    def stop(self, *arguments: str) -> str:
        """Stops the job; gives the path to go on from."""
        done = self.cluster.headrace("stop", self.job, *arguments, "--json")
        assert done.code == 0, done.err
        assert self.cluster.client.status(self.job).state == "FINISHED"
        return str(done.json["path"])

    def go_on(self, path: str, *arguments: str, parallelism: int = 2) -> None:
        """Submits it from there; nothing must be lost or repeated."""
        self.submit("--from-savepoint", path, *arguments, parallelism=parallelism)
        self.wait_checkpoint()
        self.settle()

    def wait_checkpoint(self) -> int:
        """Waits for a checkpoint that is not there yet; gives its epoch."""
        before = self.epoch()
        wait_until(lambda: self.epoch() > before, f"a checkpoint after {before}: {self.cluster.status(self.job)}")
        return self.epoch()

    def epoch(self) -> int:
        """Of the newest checkpoint; 0: none, or nobody answers."""
        status = self.cluster.status(self.job)
        return 0 if status is None or status.checkpoint is None else status.checkpoint.epoch

    def slots(self) -> list[int]:
        """Pids of the slots that run the job now; waits for some."""
        return self.cluster.wait_busy_slots(self.job)

    def wait_other_attempt(self) -> None:
        """Waits until another attempt runs than that before the fault; inside of `recovering`."""
        self._wait_attempt_above(self._attempt_before, "another attempt runs")
        self._again_s = time.monotonic()

    def _wait_attempt_above(self, attempt: int, what: str) -> None:
        def runs() -> bool:
            status = self.cluster.status(self.job)
            return status is not None and status.state == "RUNNING" and status.attempt > attempt

        wait_until(runs, f"{what}, after attempt {attempt}")

    @contextmanager
    def recovering(self, what: str) -> Iterator[None]:
        """Around a fault: afterwards a new attempt must run, take a checkpoint, and have lost and repeated nothing."""
        self._attempt_before = self.cluster.wait_state(self.job, "RUNNING").attempt
        self._again_s = None
        begun, begun_at = time.monotonic(), datetime.now(UTC)
        yield
        struck = time.monotonic()

        self._wait_attempt_above(self._attempt_before, f"{what}: the job runs again")
        again = self._again_s or time.monotonic()
        found, epoch = self._detection(begun_at, again - begun), self.epoch()
        # first: rows that come meanwhile are seen with a later checkpoint, so that nobody has to wait for another one
        self.settle()
        exact = time.monotonic()
        wait_until(lambda: self.epoch() > epoch, f"{what}: a checkpoint after {epoch}")
        exact_s, saved_s = exact - max(again, struck), time.monotonic() - exact
        LOG.info(
            f"{what}: struck within {struck - begun:.1f} s, runs again {again - begun:.1f} s after its beginning"
            f"{found}, exact {exact_s:.1f} s later, checkpoint {saved_s:.1f} s later"
        )

    def _detection(self, begun_at: datetime, again_s: float) -> str:
        """How long after the fault it was noticed, by another coordinator if one leads now, and how long before the job
        ran again; empty where nobody counts a failure, as when a coordinator without standbys was started again."""
        failed = [each.at for each in self.cluster.client.exceptions(self.job) if each.at >= begun_at]
        elected = [each for each in self.cluster.elections() if each >= begun_at]
        if not (failed or elected):
            return ""
        detected_s = (min(elected or failed) - begun_at).total_seconds()
        by = "replaced" if elected else "noticed"
        return f", {by} after {detected_s:.1f} s and {again_s - detected_s:.1f} s before that"

    def settle(self) -> None:
        """The feed pauses until the output is exactly what the input comes to; what is written twice is equal."""
        with self.feed.paused():
            self.wait_exact()

    def greet(self) -> None:
        """A first round for partitions that are new, and waits for it; inside of `feed.paused`.

        A new partition takes what its subtask has emitted as its floor: nobody else may run ahead until it is found.
        """
        self.feed.write_round()
        self.wait_exact()

    def finish(self) -> None:
        """Drains the job: every window closes, and then the output is exact too."""
        with self.feed.paused():
            self.wait_exact()
            done = self.cluster.headrace("stop", self.job, "--drain")
            assert done.code == 0, done.err
            self.wait_exact(drained=True)
        self.cluster.wait_state(self.job, "FINISHED")

    def wait_exact(self, *, drained: bool = False) -> None:
        """Waits until the output is what the rows written so far come to; inside of `feed.paused`."""
        expected = self.feed.expected(drained=drained)
        deadline = time.monotonic() + WAIT_SECONDS
        while not _is_exact(seen := self.output.read(), expected):
            assert time.monotonic() < deadline, f"{_difference(seen, expected)}\n{self.cluster.status(self.job)}"
        assert not self.output.seen.contradictions


def _is_exact(seen: Seen, expected: Expected) -> bool:
    return (
        seen.windows == expected.windows
        and seen.kept == expected.kept
        and seen.late == expected.late
        and seen.bad == expected.bad
    )


def _difference(seen: Seen, expected: Expected) -> str:
    """What is missing or too much; empty: nothing."""
    lines = []
    for what in ("windows", "kept"):
        have, want = getattr(seen, what), getattr(expected, what)
        lines += _lines(what, set(want) - set(have), set(have) - set(want))
        if wrong := {key: (have[key], want[key]) for key in set(have) & set(want) if have[key] != want[key]}:
            lines.append(f"{what}: {len(wrong)} are wrong, such as (got, wanted) {dict(list(wrong.items())[:3])}")
    for what in ("late", "bad"):
        have, want = getattr(seen, what), getattr(expected, what)
        lines += _lines(what, want - have, have - want)
    return "\n".join(lines)


def _lines(what: str, missing: set[object], surplus: set[object]) -> list[str]:
    """Two lines at most."""
    pairs = (("missing", missing), ("too much", surplus))
    return [f"{what}: {len(some)} {word}, such as {sorted(some, key=str)[:3]}" for word, some in pairs if some]


@contextmanager
def running_flow(cluster: Cluster, broker: Broker, **options: Any) -> Iterator[Flow]:
    """The flow, fed from the start, not yet submitted. `options`: as those of `Flow`."""
    flow = Flow(cluster, broker, **options)
    try:
        with flow.feed:
            yield flow
    finally:
        flow.output.close()


@contextmanager
def exact_flow(cluster: Cluster, broker: Broker, **options: Any) -> Iterator[Flow]:
    """The flow, which runs and has been exact once; at the end it is drained, exact once more, and no transaction is
    open."""
    with running_flow(cluster, broker, **options) as running:
        running.submit()
        running.wait_checkpoint()
        running.settle()
        yield running
        running.finish()
        require_none_open(broker, running.job)
