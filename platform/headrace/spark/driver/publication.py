"""Publishes the staged rows of a decided epoch to their sinks. The rows that one subtask staged for a sink are a share.

A repeated call, also by another driver, publishes the rows that are not published yet
(`headrace.spark.task.publish_shares`).

A publisher reads from its external system how many rows of its share are visible already (`connect.publisher`). That
information expires there. After that, publishing an old decision would write its rows again from the first one on, so
the user has to choose (`require_remembered`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import Manifest, learned_of
from headrace.core.clock import Clock
from headrace.core.errors import ExternalError, UserError
from headrace.core.text.plural import plural
from headrace.execution.planning import JobPlans, plan_sinks
from headrace.plan.physical import SinkSpec
from headrace.spark.driver.exchange import Exchange
from headrace.spark.driver.manifest import share_of
from headrace.spark.task.order import StagedShare
from headrace.spark.task.publish_shares import publish_orders, write

TRIES = 4
"""Most attempts to publish if it fails transiently: brokers restart, or another driver publishes at the same time."""

Say = Callable[[str], None]
"""Receives one line of progress."""
FRESH_MS = 30_000
"""No sink forgets within this time, in ms, so none is queried before: Kafka keeps offsets for at least a minute."""
MARGIN_PART = 10
MARGIN_MAX_MS = 3_600_000
"""Rows count as forgotten earlier than the sink forgets them: by a tenth of its time, at most an hour. Clocks differ,
and publishing is slow.
"""


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
            "formats": learned_of(manifest.formats),
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


def require_remembered(sinks: Iterable[SinkSpec], job: str, age_ms: int) -> None:
    """Raises UserError if one of the sinks may have forgotten which of the job's rows it has, ExternalError if it does
    not answer.

    age_ms   time since the decision: nothing was published before it
    """
    if age_ms < FRESH_MS:
        return
    for spec in sinks:
        known_ms = spec.config.remembers_ms()
        if known_ms is not None and age_ms >= known_ms - min(known_ms // MARGIN_PART, MARGIN_MAX_MS):
            raise UserError(
                f"the results of {job} were decided {_text(age_ms)} ago, but sink {spec.node!r} keeps the number of "
                f"published rows for {_text(known_ms)} only: publishing now may write rows a second time",
                remedy="check which rows the sink has, then repeat the command with --allow-repeated-output (publishes "
                "rows whose publication is unknown) or with --give-up (unpublished rows are dropped)",
            )


def _text(length_ms: int) -> str:
    """Returns a length in a unit of which it has at least two: `9d`, `26h`, `80m`."""
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if length_ms >= 2 * unit_ms:
            return f"{length_ms // unit_ms}{unit}"
    return f"{length_ms // 1000}s"
