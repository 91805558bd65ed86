"""What a job left open on a real broker, against its journal: committed where decided, else aborted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.checkpoint.journal_shell import JournalStore
from headrace.checkpoint.manifest import CommittableDocument, Manifest
from headrace.checkpoint.records import AttemptRecord, CheckpointRecord, FinishedRecord
from headrace.checkpoint.store import open_store
from headrace.client.output_models import EndTransactionsRequest, TransactionList
from headrace.coordinator.held_job import HeldJob, ToolHosts
from headrace.coordinator.job_transactions import JobTransactions
from headrace.coordinator.service import JobConflict
from headrace.coordinator.transaction_safety import Phase
from headrace.core.clock import SystemClock
from headrace.local.broker import EmbeddedBroker
from support.broker import consume_all, create_topic, unique_topic

pytestmark = pytest.mark.broker

JOB = "00112233aabb"
DECIDED, OPEN = f"headrace-{JOB}-out-1-0-0", f"headrace-{JOB}-out-1-0-1"


def left_open(broker: EmbeddedBroker, name: str, topic: str, rows: int) -> Producer:
    """A transaction whose producer says nothing any more: kept, for dropping it changes nothing."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    for number in range(rows):
        producer.produce(topic, f"{name} {number}".encode())
    assert producer.flush(10) == 0
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

    def write_journal(self, described: tuple[CommittableDocument, ...]) -> None:
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

    def look(self) -> dict[str, str]:
        return safe(asyncio.run(self.tool.look(self.held)))

    def end(self, action: str, **fields: object) -> TransactionList:
        request = EndTransactionsRequest.model_validate({"action": action, **fields})
        return asyncio.run(self.tool.end(self.held, request))

    def visible(self) -> list[bytes]:
        return [record.value or b"" for record in consume_all(self.broker, self.topic)]


def safe(found: TransactionList) -> dict[str, str]:
    return {each.name: each.safe for each in found.transactions}


def test_the_decided_one_is_committed_and_the_other_aborted(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.decide()
    assert left.look() == {DECIDED: "commit", OPEN: "abort"}

    dry = left.end("commit")
    assert dry.note == "1 transactions would be committed; --yes does it"
    (first,) = [each for each in dry.transactions if each.name == DECIDED]
    assert (first.epoch, first.holds_back, first.attempt, first.subtask) == (4, (f"{left.topic}[0]",), 1, 0)
    assert first.age_ms is not None
    assert left.visible() == []
    with pytest.raises(JobConflict, match="it is not safe to abort"):
        left.end("abort", names=[DECIDED], yes=True, force=True)
    with pytest.raises(JobConflict, match="no transaction of that name"):
        left.end("abort", names=["headrace-x"], yes=True)

    done = left.end("commit", yes=True)
    assert {each.name: each.done for each in done.transactions} == {DECIDED: "committed", OPEN: None}
    assert left.held.journal().uncommitted is None
    assert left.look() == {OPEN: "abort"}
    left.end("abort", yes=True)
    assert left.look() == {}
    assert left.visible() == [f"{DECIDED} {number}".encode() for number in range(3)]
    assert left.end("commit", yes=True).note == "nothing is to be committed"


def test_a_decided_one_that_is_gone_is_told_as_lost(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.decide()
    left.producers[0].abort_transaction(10)
    done = left.end("commit", yes=True)
    assert "1 are lost" in (done.note or "")
    waiting = left.held.journal().uncommitted
    assert waiting is not None
    left.end("abort", yes=True)


def test_a_job_that_runs_is_looked_at_and_left_alone(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path, Phase.LIVE)
    left.decide()
    assert left.look() == {DECIDED: "leave", OPEN: "leave"}
    with pytest.raises(JobConflict, match="commits and aborts its transactions itself"):
        left.end("abort", yes=True, force=True)
    for producer in left.producers:
        producer.abort_transaction(10)
