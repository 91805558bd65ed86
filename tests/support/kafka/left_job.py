"""A job that has ended and left transactions open on a real broker, with a journal that tells of them or not."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from confluent_kafka import Producer

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord, FinishedRecord
from headrace.checkpoint.manifest import CommittableDocument, Manifest, OutputTotal
from headrace.checkpoint.stores.opening import open_store
from headrace.client.output_models import EndTransactionsRequest, TransactionList
from headrace.coordinator.output.job_handle import HeldJob, ToolHosts
from headrace.coordinator.output.job_transactions import JobTransactions
from headrace.coordinator.output.transaction_safety import Phase
from headrace.core.clock import SystemClock
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, unique_topic
from support.kafka.open_transactions import wait_settled
from support.patience import WAIT_SECONDS

JOB = uuid.uuid4().hex[:12]
"""Another one in each test process, for they share a broker."""
DECIDED, OPEN = f"headrace-{JOB}-out-1-0-0", f"headrace-{JOB}-out-1-0-1"


def left_open(broker: EmbeddedBroker, name: str, topic: str, rows: int) -> Producer:
    """A transaction whose producer says nothing any more: kept, for dropping it changes nothing."""
    properties = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000}
    producer = Producer(properties)
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    for number in range(rows):
        producer.produce(topic, f"{name} {number}".encode())
    assert producer.flush(WAIT_SECONDS) == 0
    return producer


class Left:
    """A job that has ended, with a decided and an undecided transaction."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, phase: Phase = Phase.ENDED) -> None:
        self.broker = broker
        self.topic = create_topic(broker, unique_topic("left"), 1)
        self.producers = [left_open(broker, name, self.topic, rows) for name, rows in ((DECIDED, 3), (OPEN, 2))]
        self.folder = folder
        self.tool = JobTransactions(ToolHosts(), SystemClock())
        self.held = HeldJob(
            job=JOB,
            name="left",
            phase=phase,
            state="CANCELED",
            pipeline=self.pipeline(),
            storage=str(folder / "storage"),
            folder=folder,
        )

    def pipeline(self) -> dict[str, object]:
        kafka = {"brokers": self.broker.bootstrap, "topic": self.topic, "delivery": "exactly-once"}
        return {
            "name": "left",
            "sources": {
                "rows": {"generator": {"columns": {"n": {"sequence": {}}}, "rate": 1}, "schema": {"n": "int64"}}
            },
            "sinks": {"out": {"from": "rows", "kafka": kafka, "format": "json"}},
        }

    def write_journal(self, described: tuple[CommittableDocument, ...], output: OutputTotal | None = None) -> None:
        journal = JournalStore(open_store(self.held.storage), "", "w")
        manifest = Manifest(
            kind="checkpoint",
            job=JOB,
            pipeline="left",
            epoch=4,
            attempt=1,
            created_at_ms=1,
            version="0",
            plan_hash="h",
            max_parallelism=128,
            parallelism={"out": 1},
            nodes={"out": "sink kafka"},
            states=(),
            sources={},
            splits={},
            committables=described,
            output={} if output is None else {"out": output},
        )
        journal.append(AttemptRecord(at_ms=1, attempt=1, parallelism=1, plan_hash="h"))
        journal.append(CheckpointRecord(at_ms=2, manifest=manifest))
        journal.append(FinishedRecord(at_ms=3, state="CANCELED"))

    def decide(self) -> None:
        """As the job would have: described, then written."""

        async def describe() -> tuple[CommittableDocument, ...]:
            item = CommittableDocument(sink="out", subtask=0, epoch=4, payload={}, name=DECIDED, rows=3)
            async with ToolHosts().committers(self.held) as host:
                return await host.describe(4, (item,))

        self.write_journal(asyncio.run(describe()))

    def settle(self, *, committed: bool) -> None:
        """The first transaction is committed or aborted, the other one aborted: and readers see that."""
        first, second = self.producers
        if committed:
            first.commit_transaction(WAIT_SECONDS)
        else:
            first.abort_transaction(WAIT_SECONDS)
        second.abort_transaction(WAIT_SECONDS)
        wait_settled(self.broker, JOB)

    def look(self) -> dict[str, str]:
        return safe(asyncio.run(self.tool.look(self.held)))

    def end(self, action: str, **fields: object) -> TransactionList:
        request = EndTransactionsRequest.model_validate({"action": action, **fields})
        return asyncio.run(self.tool.end(self.held, request))

    def visible(self) -> list[bytes]:
        return [record.value or b"" for record in consume_all(self.broker, self.topic)]


def safe(found: TransactionList) -> dict[str, str]:
    return {each.name: each.safe for each in found.transactions}
