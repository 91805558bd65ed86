"""Publishes the staged rows of a decided epoch to their sinks. The rows that one subtask staged for a sink are a share.

A repeated call, also by another driver, publishes the rows that are not published yet
(`headrace.spark.driver.publish_shares`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import Manifest
from headrace.core.clock import Clock
from headrace.core.errors import ExternalError
from headrace.core.text.plural import plural
from headrace.execution.planning import JobPlans, plan_sinks
from headrace.plan.physical import SinkSpec
from headrace.spark.driver.manifest import share_of
from headrace.spark.driver.publish_shares import publish_orders, write
from headrace.spark.driver.published_before import require_remembered
from headrace.spark.levels.exchange import Exchange
from headrace.spark.task.report import StagedShare

TRIES = 4
"""Most attempts to publish if it fails transiently: brokers restart, or another driver publishes at the same time."""

Say = Callable[[str], None]
"""Receives one line of progress."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Publishes epochs of one job.

    storage          URL of the job's folder
    allow_repeated   publish even if a sink may have forgotten which rows it has
    """

    plans: JobPlans
    parallelism: int
    storage: str
    exchange: Exchange
    say: Say
    clock: Clock
    allow_repeated: bool = False

    def publish(self, record: CheckpointRecord) -> None:
        """Publishes the rows of a decided epoch. Each row is published once, except to sinks without a publisher, which
        may receive rows again if the call is repeated. Raises ExternalError, and UserError if a sink may have forgotten
        which rows it has.
        """
        manifest = record.manifest
        plan = self.plans.plan(self.parallelism)
        shares = [share_of(item) for item in manifest.committables]
        if not shares:
            return
        common = {
            "job": manifest.job,
            "attempt": manifest.attempt,
            "epoch": manifest.epoch,
            "pipeline": self.plans.file_form(self.parallelism),
            "plan_hash": self.plans.facts(self.parallelism).plan_hash,
            "storage": self.storage,
        }
        sinks = {sink.node: sink.config for _, sink in plan_sinks(plan)}
        orders = publish_orders(common, shares, _numbers(shares))
        in_tasks = [order for order in orders if sinks[order.share.sink].publishes_once]
        rows = sum(share.rows for share in shares)
        self.say(f"publishing: {rows:,} {'row' if rows == 1 else 'rows'} in {plural(len(orders), 'share')}")
        published = {order.share.sink for order in in_tasks}
        remembering = [spec for _, spec in plan_sinks(plan) if spec.node in published]
        self._publish([order.model_dump_json().encode() for order in in_tasks], remembering, record)
        for order in orders:
            if not sinks[order.share.sink].publishes_once:
                write(order)

    def _publish(self, orders: Sequence[bytes], sinks: Sequence[SinkSpec], record: CheckpointRecord) -> None:
        """Publishes shares in Spark tasks, and retries transient failures. A retry skips the rows that are published
        already."""
        for tries_left in range(TRIES - 1, -1, -1):
            # checked before every try: the sink may forget which rows it has while this driver retries
            if not self.allow_repeated:
                require_remembered(sinks, record.manifest.job, self.clock.now_ms() - record.at_ms)
            try:
                self.exchange.each(orders)
            except ExternalError as error:
                if not error.retry or not tries_left:
                    raise
                self.say(f"{error.message}; publishing is retried ({tries_left} retries left)")
            else:
                return


def staged_files(manifest: Manifest) -> Iterator[str]:
    """Returns the paths of the epoch's staged rows, which are not needed once it is committed."""
    return (part.path for item in manifest.committables for part in share_of(item).files)


def _numbers(shares: Sequence[StagedShare]) -> dict[str, int]:
    """Returns sink -> the number of subtasks that its shares may belong to."""
    numbers: dict[str, int] = {}
    for share in shares:
        numbers[share.sink] = max(numbers.get(share.sink, 0), share.subtask + 1)
    return numbers
