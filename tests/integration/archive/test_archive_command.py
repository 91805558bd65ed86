"""`headrace archive`: as a command and as the pipeline that it prints, killed and taken up again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.ranges import Range, covered
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_dev.broker import EmbeddedBroker
from support.clusters.local import processes_of
from support.kafka.broker import create_topic, produce, unique_topic
from support.kafka.log_ends import wait_settled
from support.kafka.raw_transactions import transactional
from support.processes.commands import invoked
from support.processes.running import WAIT_SECONDS, finish, headrace, start, wait_until
from support.storage.archive import delete_records, read_records

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]


def records(broker: EmbeddedBroker, topic: str, archive: Path | None = None) -> list[tuple[Any, ...]]:
    given = {"brokers": broker.bootstrap, "topic": topic, "stop": "latest"}
    return read_records(
        KafkaSourceConfig.model_validate(given | ({} if archive is None else {"archive": str(archive)}))
    )


def kept(path: Path, topic: str, partition: int) -> list[Range]:
    return covered(ArchiveFolder(str(path)).files(topic, partition))


def test_day_after_day(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = create_topic(broker, unique_topic("daily"), 3)
    command = ["archive", topic, "--brokers", broker.bootstrap, "--to", "kept", "--until", "latest", "--json"]
    for day in range(2):
        produce(broker, topic, [f"{n}" for n in range(300)], partition=[n % 2 for n in range(300)])
        ran = headrace(command, tmp_path)
        assert ran.code == 0, ran.err
        # the last record of the day before comes again: by it the days hang together
        assert (ran.json["state"], ran.json["rows_in"]) == ("FINISHED", 300 + (2 if day else 0))
    before = records(broker, topic)
    delete_records(broker, topic, {0: 300, 1: 200})
    assert records(broker, topic, tmp_path / "kept") == before
    assert [kept(tmp_path / "kept", topic, number) for number in range(3)] == [[Range(0, 300)], [Range(0, 300)], []]
    idle = headrace(command, tmp_path)
    assert (idle.code, idle.json["rows_in"]) == (0, 0), idle.err


PIPELINE = """
name: summed
sources:
  made:
    kafka:
      brokers: {brokers}
      topic: {topic}
      stop: latest
{archive}
    format: json
    schema: {{k: int64 not null, n: int64 not null}}
steps:
  sums:
    from: made
    key_by: [k]
    window: {{tumbling: 10s}}
    aggregate: {{rows: count(*), total: sum(n)}}
sinks:
  out:
    from: sums
    files: {{path: {out}}}
    format: json
"""


def test_a_pipeline_over_archive_and_kafka_gives_the_same_rows(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = create_topic(broker, unique_topic("summed"), 2)
    # out of order now and then, so that rows are late: which ones must not depend on where they are read
    stamps = [1_700_000_000_000 + n * 100 - (n * 7919 % 40) * 500 for n in range(2000)]
    values = [json.dumps({"k": n % 7, "n": n}) for n in range(2000)]
    produce(broker, topic, values, partition=[n % 2 for n in range(2000)], timestamps=stamps)

    def result(out: str, archive: str) -> tuple[list[str], object]:
        text = PIPELINE.format(brokers=broker.bootstrap, topic=topic, archive=archive, out=out)
        (tmp_path / f"{out}.yaml").write_text(text)
        ran = headrace(["run", f"{out}.yaml", "--json"], tmp_path)
        assert ran.code == 0, ran.err
        rows = [line for file in (tmp_path / out).glob("part-*") for line in file.read_text().splitlines()]
        return sorted(rows), ran.json["late"]

    alone = result("alone", "")
    assert alone[1], "some rows are late"
    end = "2023-11-14T22:14:50Z"
    ran = headrace(
        ["archive", topic, "--brokers", broker.bootstrap, "--to", "kept", "--until", end, "--json"], tmp_path
    )
    assert ran.code == 0, ran.err
    assert 0 < ran.json["rows_in"] < 2000, (ran, list((tmp_path / "kept").glob("**/*")))
    delete_records(broker, topic, {number: kept(tmp_path / "kept", topic, number)[-1].next - 9 for number in (0, 1)})
    assert result("both", "      archive: kept") == alone


@pytest.mark.full
def test_killed_and_taken_up_there_is_no_hole(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = create_topic(broker, unique_topic("fed"), 2)
    options = ["archive", topic, "--brokers", broker.bootstrap, "--to", "kept", "--parallelism", "2", "--print"]
    printed = headrace(options, tmp_path)
    assert printed.code == 0, printed.err
    (tmp_path / "p.yaml").write_text(printed.out.replace("interval: 5m", "interval: 100ms"))
    producer = transactional(broker)

    def feed(count: int) -> None:
        """Transactions in both partitions, so that control records lie wherever a file may end."""
        for number in range(count):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(topic, f"{number}", partition=partition)
            producer.commit_transaction(WAIT_SECONDS)
        wait_settled(broker.bootstrap, topic)

    def archived() -> bool:
        ends = [max((row[1] for row in kept(tmp_path / "kept", topic, number)), default=0) for number in (0, 1)]
        return ends == [max(row[2] for row in records(broker, topic) if row[1] == number) + 1 for number in (0, 1)]

    feed(20)
    process = start(["run", "p.yaml", "--json"], tmp_path)
    try:
        for _ in range(2):
            wait_until(archived, "all that there is has been archived")
            feed(10)
            # at any point of a checkpoint: what was put may be more than what is decided
            process.kill()
            process.communicate()
            wait_until(lambda: processes_of(tmp_path / "home") == [], "no process is left of it")
            feed(10)
            process = start(["run", "p.yaml", "--resume", "--json"], tmp_path)
        wait_until(archived, "all that there is has been archived")
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        stopped = finish(process)
    assert stopped.code == 0, stopped.err
    before = records(broker, topic)
    for number in (0, 1):
        end = max(row[2] for row in before if row[1] == number) + 1
        assert kept(tmp_path / "kept", topic, number) == [Range(0, end)]
    delete_records(broker, topic, {0: 100, 1: 100})
    assert records(broker, topic, tmp_path / "kept") == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--properties", "nonsense"], 2, "--property takes KEY=VALUE"),
        (["--from", "yesterday"], 2, "is no position"),
        (["--name", "No Name"], 2, "No Name"),
        (["--resume"], 2, "no archive run"),
    ],
)
def test_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    ran = invoked("archive", "t", "--brokers", "localhost:1", "--to", "kept", *arguments)
    assert ran.exit_code == code, ran.output
    assert message in ran.stderr
    assert not (tmp_path / "kept").exists()
