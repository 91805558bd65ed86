"""Pipelines that are followed on Spark, on a real broker: what comes out is what the native run gives, whatever happens
on the way.

Drivers that are killed or stopped run without a JVM (`support.spark.local_exchange`). 50 increments of one that is
killed: `--increments 50` (tests/conftest.py).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # re-exported

from headrace.core.errors import UserError
from headrace.spark.driver.exchange import RddExchange
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.kafka.log_ends import log_ends
from support.processes.running import headrace, wait_until
from support.rotation import of_this_commit
from support.spark.followed import STEPS, Batch, Feed, FollowOrder, run_killed
from support.spark.local_exchange import LocalExchange
from support.spark.settings import SPARK_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

PARTITIONS = 3
PIPELINE = """\
name: followed
parallelism: 2
checkpoint: {{retained: 2}}
sources:
  orders:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest{stop}}}
    format: json
    schema: {{id: int64 not null, shop: string, amount: float64, at: timestamp not null}}
    time: {{column: at, out_of_orderness: 20s}}
steps:
  minutes:
    from: orders
    key_by: [shop]
    window: {{tumbling: 1m}}
    aggregate:
      orders: count(*)
      total: sum(amount)
      kinds: count(distinct id % 5)
  totals:
    from: orders
    key_by: [shop]
    aggregate:
      orders: count(*)
      mean: avg(amount)
      kinds: count(distinct id % 7)
sinks:
  windows:
    from: minutes
    kafka: {{brokers: "{brokers}", topic: "{out}-windows"}}
    format: json
  late:
    from: minutes.late
    kafka: {{brokers: "{brokers}", topic: "{out}-late"}}
    format: json
  shops:
    from: totals
    kafka: {{brokers: "{brokers}", topic: "{out}-shops", key: [shop], mode: upsert}}
    format: json
"""


def batches(topic: str, count: int, rows: int = 60) -> tuple[Batch, ...]:
    """Orders out of order, some of them late; every batch has rows of every partition."""
    draw = random.Random(7)
    begin = datetime(2024, 3, 1, tzinfo=UTC)
    made: list[Batch] = []
    for number in range(count):
        values: list[str] = []
        for row in range(rows):
            at = begin + timedelta(seconds=number * 45 + row + draw.randint(-70, 10))
            fields = {
                "id": number * rows + row,
                "shop": draw.choice(["north", "south", "east", "west"]) if row else f"shop {number}",
                "amount": draw.random() * 100,
                "at": at.isoformat(),
            }
            values.append(json.dumps(fields))
        made.append(Batch(topic, tuple(values), tuple(row % PARTITIONS for row in range(rows))))
    return tuple(made)


def stop_behind(all_batches: Sequence[Batch]) -> str:
    """`stop:` behind the last row of all batches."""
    counts = Counter(partition for batch in all_batches for partition in batch.partitions)
    offsets = ", ".join(f"{partition}: {rows}" for partition, rows in sorted(counts.items()))
    return f", stop: {{{offsets}}}"


@dataclass(frozen=True, slots=True)
class Output:
    """What a reader of committed records sees: windows and late rows, each as often as it is there, and the last row of
    each key."""

    windows: Counter[bytes | None]
    late: Counter[bytes | None]
    shops: dict[bytes | None, bytes | None]


class Flow:
    """The pipeline with topics of its own."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, all_batches: Sequence[Batch], topic: str) -> None:
        self.broker, self.folder, self.topic = broker, folder, topic
        self.batches = tuple(all_batches)

    def file(self, out: str, *, stop: bool = True) -> Path:
        """The pipeline's file; `out`: stem of the topics that it writes to, which are made."""
        for name in ("windows", "late", "shops"):
            create_topic(self.broker, f"{out}-{name}")
        path = self.folder / f"{out}.yaml"
        bound = stop_behind(self.batches) if stop else ""
        path.write_text(PIPELINE.format(brokers=self.broker.bootstrap, topic=self.topic, out=out, stop=bound))
        return path

    def order(self, file: Path, **more: object) -> FollowOrder:
        """To follow that file over all batches."""
        home = self.folder / f"home-{file.stem}"
        home.mkdir()
        return FollowOrder(str(file), str(home), self.broker.bootstrap, self.batches, **more)  # type: ignore[arg-type]

    def output(self, out: str) -> Output:
        """What is there."""

        def values(name: str) -> Counter[bytes | None]:
            return Counter(record.value for record in consume_all(self.broker, f"{out}-{name}"))

        shops = {record.key: record.value for record in consume_all(self.broker, f"{out}-shops")}
        return Output(values("windows"), values("late"), shops)

    def native(self, file: Path, *more: str) -> None:
        """`headrace run`, to its end."""
        done = headrace(["run", str(file), *more], self.folder)
        assert done.code == 0, done.err


@pytest.fixture
def flow(broker: EmbeddedBroker, tmp_path: Path) -> Flow:
    """Eight batches."""
    return make_flow(broker, tmp_path, 8)


def make_flow(broker: EmbeddedBroker, folder: Path, count: int) -> Flow:
    """With that many batches."""
    topic = create_topic(broker, unique_topic("orders"), PARTITIONS)
    return Flow(broker, folder, batches(topic, count), topic)


def test_every_batch_an_increment(broker: EmbeddedBroker, tmp_path: Path, spark: SparkSession) -> None:
    flow = make_flow(broker, tmp_path, 4)
    order = flow.order(flow.file(unique_topic("live")))
    outcome = order.run(RddExchange(spark), order.feed())
    out = Path(order.file).stem
    assert outcome.finished
    assert outcome.increments == len(flow.batches)
    native = unique_topic("native")
    flow.native(flow.file(native))
    assert flow.output(out) == flow.output(native)
    assert outcome.rows_in == sum(len(batch.values) for batch in flow.batches)
    assert outcome.late == flow.output(native).late.total() > 0


def test_killed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """kill -9 of the driver at one step of a commit, between increments that nothing happens to."""
    check_killed(make_flow(broker, tmp_path, 3), [(2, of_this_commit(STEPS))])


@pytest.mark.full
def test_killed_at_every_step(broker: EmbeddedBroker, tmp_path: Path, increments: int) -> None:
    """kill -9 of the driver, once at each step of a commit, between increments that nothing happens to."""
    kills = [(2 + number * (increments - 3) // len(STEPS), step) for number, step in enumerate(STEPS)]
    check_killed(make_flow(broker, tmp_path, increments), kills)


def check_killed(flow: Flow, kills: Sequence[tuple[int, str]]) -> None:
    """Follows with kills at these steps of these epochs: the output is that of a native run."""
    order = flow.order(flow.file(unique_topic("killed")), kills=tuple(kills))
    assert run_killed(order, flow.folder) == len(kills)
    native = unique_topic("native")
    flow.native(flow.file(native))
    assert flow.output(Path(order.file).stem) == flow.output(native)


@pytest.mark.full
def test_handed_over(flow: Flow) -> None:
    """Half of the batches followed; asked to stop, with a savepoint; the native engine goes on from there."""
    out = unique_topic("over")
    file = flow.file(out, stop=False)
    order = flow.order(file, savepoint=str(flow.folder / "savepoints"))
    half = len(flow.batches) // 2
    outcome = order.run(LocalExchange(3), Feed(flow.broker, flow.batches[:half], flow.folder / "fed"))
    assert outcome.finished
    assert outcome.savepoint is not None
    assert outcome.increments == half
    with pytest.raises(UserError, match="has ended with a savepoint"):
        order.run(LocalExchange(3), order.feed())
    for batch in flow.batches[half:]:
        produce(flow.broker, batch.topic, batch.values, partition=batch.partitions)
    bounded = flow.folder / "bounded.yaml"
    bounded.write_text(file.read_text().replace("start: earliest", "start: earliest" + stop_behind(flow.batches)))
    flow.native(bounded, "--from-savepoint", outcome.savepoint, "--parallelism", "3")
    native = unique_topic("native")
    flow.native(flow.file(native))
    assert flow.output(out) == flow.output(native)


def test_a_new_partition_is_read_from_its_beginning(flow: Flow) -> None:
    file = flow.file(unique_topic("wider"), stop=False)
    order = flow.order(file)
    first = order.run(LocalExchange(4), Feed(flow.broker, flow.batches[:2], flow.folder / "fed"))
    admin = AdminClient({"bootstrap.servers": flow.broker.bootstrap})
    admin.create_partitions([NewPartitions(flow.topic, PARTITIONS + 1)])[flow.topic].result()
    log_ends(flow.broker.bootstrap, flow.topic, [PARTITIONS])  # once that one has a leader
    more = Batch(flow.topic, flow.batches[2].values, (PARTITIONS,) * len(flow.batches[2].values))
    second = order.run(LocalExchange(4), Feed(flow.broker, [more], flow.folder / "fed-more"))
    assert not second.finished
    assert (first.rows_in, second.rows_in) == (sum(len(each.values) for each in flow.batches[:2]), len(more.values))
    assert any(floor.partition == PARTITIONS and floor.position == 0 for floor in second.floors)


@pytest.mark.full
def test_on_spark_until_ctrl_c(flow: Flow) -> None:
    """The command itself: increments while rows come, then Ctrl-C; again, to the end of the source."""
    out = unique_topic("command")
    file = flow.file(out)
    command = [sys.executable, "-m", "headrace", "replay", str(file), "--follow", "--trigger-interval", "100ms"]
    environment = {**os.environ, "HEADRACE_HOME": str(flow.folder / "command"), "SPARK_LOCAL_IP": "127.0.0.1"}
    half = len(flow.batches) // 2
    for batch in flow.batches[:half]:
        produce(flow.broker, batch.topic, batch.values, partition=batch.partitions)
    errors = flow.folder / "command.err"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            [*command, "--master", "local[2]", "--json"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as running,
    ):
        try:
            wait_until(
                lambda: "epoch 1" in errors.read_text() or running.poll() is not None,
                "an increment is committed",
                SPARK_SECONDS,
            )
            running.send_signal(signal.SIGINT)
            told, _ = running.communicate(timeout=SPARK_SECONDS)
        finally:
            running.kill()
    assert running.returncode == 0, errors.read_text()
    assert json.loads(told)["state"] == "STOPPED"
    for batch in flow.batches[half:]:
        produce(flow.broker, batch.topic, batch.values, partition=batch.partitions)
    done = subprocess.run(
        [*command, "--master", "local[2]", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "FINISHED"
    native = unique_topic("native")
    flow.native(flow.file(native))
    assert flow.output(out) == flow.output(native)
