"""The connector host as a process: what it finds, what it commits, how it dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from headrace.checkpoint.manifest import CommittableDocument, SplitDocument
from headrace.coordinator.connector_host import connector_host
from headrace.coordinator.connector_host.connector_host import ConnectorHost, HostTimes
from headrace.core.errors import ExternalError, InternalError, UserError
from headrace.local.topics.topics import partitions_of
from headrace_dev.broker import EmbeddedBroker
from support.clusters.worker_process import is_running
from support.kafka.broker import create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, wait_until
from support.processes.starters import shared_starter

JOB = "0123456789ab"
PATIENT = HostTimes(open_s=WAIT_SECONDS, discover_s=WAIT_SECONDS, commit_s=WAIT_SECONDS, close_s=WAIT_SECONDS)


@pytest.fixture(autouse=True)
def who_ends_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was killed may be held up on its way out. Killed once more for that, it would tell of another end."""
    monkeypatch.setattr(connector_host, "LEAVING_S", WAIT_SECONDS)


def generated(**fields: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {"id": {"sequence": {}}}
    return {
        "name": "hosted",
        "sources": {"numbers": {"generator": {"columns": columns, **fields}, "schema": {"id": "int64"}}},
        "sinks": {"out": {"from": "numbers", "print": {}, "format": "json"}},
    }


def from_kafka(brokers: str, topic: str, **fields: Any) -> dict[str, Any]:
    source = {"kafka": {"brokers": brokers, "topic": topic, **fields}, "format": "json", "schema": {"id": "int64"}}
    return {
        "name": "hosted",
        "sources": {"rows": source},
        "sinks": {"out": {"from": "rows", "print": {}, "format": "json"}},
    }


@asynccontextmanager
async def hosting(environment: dict[str, str] | None = None) -> AsyncIterator[ConnectorHost]:
    host = await ConnectorHost.start(JOB, environment, times=PATIENT, starter=shared_starter())
    try:
        yield host
    finally:
        await host.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(2 * WAIT_SECONDS):
            await test()

    asyncio.run(within())


def places(splits: tuple[SplitDocument, ...]) -> list[tuple[int, int, int | None]]:
    return [(split.partition, split.start, split.stop) for split in splits]


def grow(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for answer in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        answer.result()
    # a producer that is told of fewer refuses records for them
    wait_until(lambda: len(partitions_of(broker.bootstrap, topic)) == partitions, "the broker knows the partitions")


def is_gone(pid: int) -> bool:
    return not is_running(pid)


def test_a_source_is_opened_and_a_restored_one_keeps_what_was_resolved() -> None:
    async def test() -> None:
        async with hosting() as host:
            first = await host.open(generated(rows=7, partitions=2), {})
            assert places(first["numbers"].splits) == [(0, 0, 4), (1, 0, 3)]
            assert (first["numbers"].interval_ms, first["numbers"].final) == (None, True)
            assert await host.discover("numbers") == ()
            known = {"numbers": first["numbers"].splits}
            again = await host.open(generated(rows=100, partitions=3), known)
            assert places(again["numbers"].splits) == [(0, 0, 4), (1, 0, 3), (2, 0, 33)]
            taken_on = await host.open(generated(rows=100, partitions=2), known, foreign=True)
            assert places(taken_on["numbers"].splits) == [(0, 0, 50), (1, 0, 50)]
        assert host.died.is_set()
        assert is_gone(host.pid)
        with pytest.raises(ExternalError, match="the connector host of job"):
            await host.discover("numbers")

    run(test)


@pytest.mark.broker
def test_partitions_that_come_later_are_read_from_the_earliest_offset(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("hosted"), 1)
    produce(broker, topic, ['{"id":1}'] * 5, partition=0)
    pipeline = from_kafka(broker.bootstrap, topic, start="latest")

    async def test() -> None:
        async with hosting() as host:
            opened = (await host.open(pipeline, {}))["rows"]
            assert places(opened.splits) == [(0, 5, None)]
            assert opened.interval_ms == 30_000
            assert not opened.final
            await asyncio.to_thread(grow, broker, topic, 2)
            await asyncio.to_thread(produce, broker, topic, ['{"id":2}'] * 3, partition=1)
            assert await found_soon(host) == [(1, 0, None)]
            assert await host.discover("rows") == ()
        known = {"rows": opened.splits}
        async with hosting() as host:
            restored = (await host.open(pipeline, known))["rows"]
            assert places(restored.splits) == [(0, 5, None), (1, 0, None)]
        bounded = from_kafka(broker.bootstrap, topic, stop="latest")
        async with hosting() as host:
            taken_on = (await host.open(bounded, known, foreign=True))["rows"]
            assert places(taken_on.splits) == [(0, 5, 5), (1, 0, 3)]
            recorded = (await host.open(bounded, {"rows": (taken_on.splits[0],)}))["rows"]
            assert places(recorded.splits) == [(0, 5, 5)]

    async def found_soon(host: ConnectorHost) -> list[tuple[int, int, int | None]]:
        while not (found := await host.discover("rows")):
            await asyncio.sleep(0.05)
        return places(found)

    run(test)


@pytest.mark.broker
def test_positions_of_a_topic_that_is_not_read_are_refused(broker: EmbeddedBroker) -> None:
    read, other = (create_topic(broker, unique_topic(name)) for name in ("read", "other"))
    known = {"rows": (SplitDocument(topic=other, partition=0, start=3),)}

    async def test() -> None:
        async with hosting() as host:
            with pytest.raises(UserError, match=rf"positions of {other}\[0\]"):
                await host.open(from_kafka(broker.bootstrap, read), known, foreign=True)

    run(test)


@pytest.mark.broker
def test_errors_come_back_as_they_were_raised(broker: EmbeddedBroker) -> None:
    topic = unique_topic("missing")

    async def test() -> None:
        async with hosting() as host:
            with pytest.raises(UserError, match=topic) as raised:
                await host.open(from_kafka(broker.bootstrap, topic), {})
            assert raised.value.remedy
            assert not raised.value.retry
            # the host goes on
            assert (await host.open(generated(), {}))["numbers"].final
            with pytest.raises(InternalError, match="no source 'rows'"):
                await host.discover("rows")
            stray = CommittableDocument(sink="out", subtask=0, epoch=1, payload={})
            with pytest.raises(InternalError, match="no committer"):
                await host.commit(1, [stray])
            await host.commit(1, [])

    run(test)


def test_a_host_that_is_killed_while_it_is_asked_says_so_and_another_one_takes_over() -> None:
    async def test() -> None:
        host = await ConnectorHost.start(JOB, starter=shared_starter())
        opened = await host.open(generated(rows=4), {})
        os.kill(host.pid, signal.SIGSTOP)
        asked = asyncio.create_task(host.discover("numbers"))
        committing = asyncio.create_task(host.commit(3, []))
        await asyncio.sleep(0)
        os.kill(host.pid, signal.SIGKILL)
        for task in (asked, committing):
            with pytest.raises(ExternalError, match="SIGKILL") as raised:
                await task
            assert raised.value.retry
        await host.died.wait()
        await host.close()
        async with hosting() as other:
            again = await other.open(generated(rows=4), {"numbers": opened["numbers"].splits})
            assert again == opened

    run(test)


def test_a_host_that_does_not_answer_is_ended() -> None:
    async def test() -> None:
        host = await ConnectorHost.start(
            JOB, times=replace(PATIENT, commit_s=0.2, discover_s=0.1, close_s=0.2), starter=shared_starter()
        )
        await host.open(generated(rows=4), {})
        os.kill(host.pid, signal.SIGSTOP)
        with pytest.raises(ExternalError, match="did not find its splits"):
            await host.discover("numbers")
        with pytest.raises(ExternalError, match="still looks"):
            await host.discover("numbers")
        assert not host.died.is_set()
        with pytest.raises(ExternalError, match="did not commit"):
            await host.commit(1, [])
        await host.died.wait()
        await host.close()

    run(test)


def test_close_ends_a_host_that_hangs() -> None:
    async def test() -> None:
        host = await ConnectorHost.start(JOB, times=replace(PATIENT, close_s=0.2), starter=shared_starter())
        await host.open(generated(rows=4), {})
        os.kill(host.pid, signal.SIGSTOP)
        await host.close()
        await host.close()
        assert is_gone(host.pid)

    run(test)


LEDGER = '''
import time
from pathlib import Path
from typing import ClassVar

from headrace.connect.registry import Connector
from headrace.connect.sink import SinkConfig
from headrace.connect.source import SourceConfig, Split, SplitId


class LedgerSource(SourceConfig):
    takes_format: ClassVar[str] = "no"
    folder: str

    def open_enumerator(self, context):
        return Enumerator(Path(self.folder), context.node)

    def open_reader(self, context):
        raise AssertionError("nobody reads here")


class Enumerator:
    """The first look is answered at once, later ones when there is a file `go`."""

    discovery_interval_ms = 1_000

    def __init__(self, folder, node):
        self._folder, self._node, self._looked = folder, node, False

    def discover(self):
        if self._looked:
            (self._folder / "looking").touch()
            while not (self._folder / "go").exists():
                time.sleep(0.01)
        self._looked = True
        return [Split(SplitId(self._node, 0), 0)]

    def close(self):
        pass


class LedgerSink(SinkConfig):
    takes_format: ClassVar[str] = "no"
    takes: ClassVar[str] = "rows"
    folder: str

    def open_writer(self, context):
        raise AssertionError("nobody writes here")

    def open_committer(self, context):
        return Committer(Path(self.folder))


class Committer:
    def __init__(self, folder):
        self._folder = folder

    def commit(self, committables):
        for each in committables:
            (self._folder / f"{each.sink}-{each.epoch}-{each.subtask}").write_text(str(each.payload["rows"]))
        return ()

    def close(self):
        (self._folder / "closed").touch()


CONNECTOR = Connector(
    name="ledger", summary="", source=LedgerSource, sink=LedgerSink, example_source="", example_sink=""
)
'''


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A folder with an installed connector that has a committer and may be slow to look for splits."""
    (tmp_path / "ledger_connector.py").write_text(LEDGER)
    info = tmp_path / "ledger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headrace.connectors]\nledger = ledger_connector:CONNECTOR\n")
    return tmp_path


def kept_in(folder: Path) -> dict[str, Any]:
    return {
        "name": "hosted",
        "sources": {"rows": {"ledger": {"folder": str(folder)}, "schema": {"id": "int64"}}},
        "sinks": {"out": {"from": "rows", "ledger": {"folder": str(folder)}}},
    }


def committable(epoch: int, subtask: int, rows: int) -> CommittableDocument:
    return CommittableDocument(sink="out", subtask=subtask, epoch=epoch, payload={"rows": rows})


def test_a_slow_look_for_splits_delays_no_commit(ledger: Path) -> None:
    async def test() -> None:
        async with hosting(environment={"PYTHONPATH": str(ledger)}) as host:
            assert not (await host.open(kept_in(ledger), {}))["rows"].final
            looking = asyncio.create_task(host.discover("rows"))
            for _ in range(2):
                await host.commit(4, [committable(4, 0, 10), committable(4, 1, 20)])
            assert not looking.done()
            assert sorted((path.name, path.read_text()) for path in ledger.glob("out-*")) == [
                ("out-4-0", "10"),
                ("out-4-1", "20"),
            ]
            (ledger / "go").touch()
            assert await looking == ()
        assert (ledger / "closed").exists()

    run(test)


def test_a_host_that_is_killed_while_it_looks_says_so(ledger: Path) -> None:
    async def test() -> None:
        async with hosting(environment={"PYTHONPATH": str(ledger)}) as host:
            await host.open(kept_in(ledger), {})
            looking = asyncio.create_task(host.discover("rows"))
            while not (ledger / "looking").exists():
                await asyncio.sleep(0.01)
            os.kill(host.pid, signal.SIGKILL)
            with pytest.raises(ExternalError, match="SIGKILL") as raised:
                await looking
            assert raised.value.retry

    run(test)


PARENT = """
import asyncio, sys
from headrace.coordinator.connector_host.connector_host import ConnectorHost

async def main():
    host = await ConnectorHost.start("0123456789ab")
    print(host.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_host_does_not_outlive_its_coordinator() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    try:
        host = int(parent.stdout.readline())
        assert not is_gone(host)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    wait_until(lambda: is_gone(host), "the host ends with its coordinator")
