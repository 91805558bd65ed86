"""A pipeline that is followed, fed batch by batch: in this process, or as a program that is killed on its way.

    python -m support.spark.followed ORDER     ORDER: JSON file of a `FollowOrder`

The program feeds a batch whenever its driver waits for the next increment. It kills itself, as kill -9 does, at each
step that the order names, once; whoever starts it again goes on with the batches behind those that were fed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.core.settings import Home
from headrace.local.pipeline_file import load_file
from headrace.spark.driver.exchange import Exchange
from headrace.spark.driver.follow import FollowOutcome
from headrace.spark.launch.follow import FollowOptions, prepare_follow
from headrace.spark.launch.replay import ReplayOptions
from headrace.spark.task.order import JobOrder
from support.kafka.broker import Broker, produce
from support.patience import SPARK_SECONDS
from support.spark.local_exchange import LocalExchange

STEPS = ("computed", "decided", "publishing", "published")
"""Before the decision; behind it, before anything is published; after one share; after all, before `committed`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages for one topic. partitions: one each."""

    topic: str
    values: tuple[str, ...]
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A broker by its address."""

    bootstrap: str


@dataclass(slots=True)
class Feed:
    """The driver's `Pause`: feeds a batch where it would wait, and asks it to stop when there is none left and
    `idle_rounds` more increments have been looked for. fed: file that keeps how many were fed."""

    broker: Broker
    batches: Sequence[Batch]
    fed: Path
    idle_rounds: int = 0
    failed: bool = False
    """An increment has failed for what passes by itself: it comes again, alone."""

    def say(self, line: str) -> None:
        """Takes what the driver tells."""
        self.failed = self.failed or "tried again soon" in line

    def __call__(self, wait_ms: int) -> bool:
        """Waits for nothing."""
        if self.failed:
            self.failed = False
            return False
        number = int(self.fed.read_text()) if self.fed.exists() else 0
        if number < len(self.batches):
            batch = self.batches[number]
            produce(self.broker, batch.topic, batch.values, partition=batch.partitions)
            self.fed.write_text(str(number + 1))
        elif self.idle_rounds:
            self.idle_rounds -= 1
        else:
            return True
        return False


@dataclass(frozen=True, slots=True)
class FollowOrder:
    """What the program does. kills: (epoch, step); savepoint: folder for one at the end."""

    file: str
    home: str
    brokers: str
    batches: tuple[Batch, ...]
    kills: tuple[tuple[int, str], ...] = ()
    savepoint: str | None = None

    def run(self, exchange: Exchange, feed: Feed) -> FollowOutcome:
        """Follows in this process."""
        return follow(Path(self.file), Path(self.home), exchange, feed, savepoint=self.savepoint)

    def feed(self) -> Feed:
        """Its batches."""
        return Feed(Bootstrap(self.brokers), self.batches, Path(self.home) / "fed")


def follow(
    file: Path,
    home: Path,
    exchange: Exchange,
    feed: Feed,
    *,
    savepoint: str | None = None,
    increments_max: int | None = None,
) -> FollowOutcome:
    """Follows the pipeline of a file in this process."""
    options = FollowOptions(
        ReplayOptions(savepoint=savepoint, python_path=(str(file.parent),)), 1, increments_max=increments_max
    )
    prepared = prepare_follow(load_file(str(file), []).pipeline, options, Home(home))
    return prepared.follow(exchange, feed.say, feed).run()


@dataclass(slots=True)
class _Killing(Exchange):
    """An exchange whose process dies at a step of an epoch, once."""

    inner: Exchange
    kills: Sequence[tuple[int, str]]
    marks: Path
    epoch: int = field(default=0)

    @property
    def parallelism(self) -> int:
        """As the inner one."""
        return self.inner.parallelism

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Computes; dies when that is done."""
        self.epoch = order.epoch
        reports = self.inner.run(order, widths)
        self._die("computed")
        return reports

    def each(self, orders: Sequence[bytes]) -> None:
        """Publishes; dies before, on the way, or when that is done."""
        if orders:
            self.epoch = int(json.loads(orders[0])["epoch"])
        self._die("decided")
        self.inner.each(orders[:1])
        self._die("publishing")
        self.inner.each(orders[1:])
        self._die("published")

    def _die(self, step: str) -> None:
        mark = self.marks / f"killed-{self.epoch}-{step}"
        if (self.epoch, step) in [(epoch, at) for epoch, at in self.kills] and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def run_killed(order: FollowOrder, folder: Path) -> int:
    """Starts the program until it comes to its end. Gives how often it was killed."""
    path = folder / "order.json"
    path.write_text(json.dumps(asdict(order)))
    killed = 0
    while True:
        done = subprocess.run(
            [sys.executable, "-m", "support.spark.followed", str(path)],
            capture_output=True,
            text=True,
            timeout=SPARK_SECONDS,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "POLARS_MAX_THREADS": "1"},
            check=False,
        )
        if done.returncode == 0:
            return killed
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        assert killed <= len(order.kills), "each kill happens once"


def _main(path: Path) -> None:
    fields = json.loads(path.read_text())
    batches = tuple(
        Batch(each["topic"], tuple(each["values"]), tuple(each["partitions"])) for each in fields.pop("batches")
    )
    kills = tuple((int(epoch), str(step)) for epoch, step in fields.pop("kills"))
    order = FollowOrder(**fields, batches=batches, kills=kills)
    exchange = _Killing(LocalExchange(len(kills), retried=0.1), kills, Path(order.home))
    order.run(exchange, order.feed())


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
