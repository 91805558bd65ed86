"""Measures the Kafka committer alone: 64 transactions a second, prepared by 4 processes, committed by one.

usage: committer.py [epochs, default 20]

Reports the committer process's share of a core (all its threads, without imports and the first connection), and the
time to describe and commit an epoch. An epoch lasts at least a second; if the writers need longer to prepare it, the
share is still computed for one epoch a second. Prints one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from measuring.figures import median

from headrace.connect.sink import Committable, SinkContext
from headrace.core.types import schema_of
from headrace.local.topics.topics import create_topic
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.clients.transaction_names import names_of
from headrace_connectors.kafka.transactions.committer import KafkaCommitter
from headrace_dev.broker import BrokerConfig, EmbeddedBroker

WRITERS, SUBTASKS = 4, 16
TOPIC, PARTITIONS = "out", 4
LANES = 2


def write(brokers: str, writer: int) -> None:
    """A writing process: for each line on its input it prepares a transaction of each of its subtasks."""
    settings = {"bootstrap.servers": brokers, "linger.ms": 0, "log_level": 0}

    def prepare(name: str) -> None:
        producer = Producer(settings | {"transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"x" * 100, partition=partition)
        assert producer.flush(60) == 0

    subtasks = range(writer * SUBTASKS, (writer + 1) * SUBTASKS)
    with ThreadPoolExecutor(8) as pool:
        for line in sys.stdin:
            names = [name_of(subtask, int(line)) for subtask in subtasks]
            list(pool.map(prepare, names))
            _say(names)


def commit(brokers: str) -> None:
    """The committing process: for each line of names on its input it describes and commits them."""
    config = KafkaSinkConfig.model_validate({"brokers": brokers, "topic": TOPIC})
    committer = KafkaCommitter(config, SinkContext("bench", "out", 0, 1, schema_of({"k": "string"}), attempt=1))
    for line in sys.stdin:
        prepared = [Committable("out", 0, 1, {}, name) for name in json.loads(line)]
        begin = time.perf_counter()
        described = committer.describe(prepared)
        between = time.perf_counter()
        lost = committer.commit(described)
        end = time.perf_counter()
        assert not lost, lost
        # process_time: of the whole process so far, waiting for the next line included
        _say([(between - begin) * 1e3, (end - between) * 1e3, time.process_time()])
    committer.close()


def run(brokers: str, epochs: int) -> None:
    """Runs writers and committer, one epoch a second."""
    create_topic(brokers, TOPIC, partitions=PARTITIONS)
    writers = [_started("write", brokers, str(number)) for number in range(WRITERS)]
    committer = _started("commit", brokers)
    figures: list[tuple[float, float, float]] = []
    for epoch in range(epochs + 2):  # with two to warm up
        begin = time.monotonic()
        for each in writers:
            _tell(each, str(epoch))
        names = [name for each in writers for name in _heard(each)]
        _tell(committer, json.dumps(names))
        figures.append(_heard(committer))
        time.sleep(max(0.0, begin + 1 - time.monotonic()))
    for each in (*writers, committer):
        each.communicate()
    describe_ms, commit_ms, cpu_s = zip(*figures, strict=True)
    each_s = [after - before for before, after in pairwise(cpu_s[1:])]
    _say(
        {
            "ids_per_epoch": WRITERS * SUBTASKS,
            "epochs": epochs,
            "core_share": round(sum(each_s) / len(each_s), 4),
            "core_share_spread": f"{min(each_s):.3f} .. {max(each_s):.3f}",
            "describe_ms": round(median(list(describe_ms[2:])), 1),
            "commit_ms": round(median(list(commit_ms[2:])), 1),
        }
    )


def name_of(subtask: int, epoch: int) -> str:
    """Lanes alternate: a name's last transaction is committed before the name is used again."""
    return str(names_of("bench", "out", 1, subtask, LANES)[epoch % LANES])


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def _heard(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["write", brokers, writer]:
            write(brokers, int(writer))
        case ["commit", brokers]:
            commit(brokers)
        case arguments:
            with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(BrokerConfig(Path(folder))) as broker:
                run(broker.bootstrap, int(arguments[0]) if arguments else 20)


if __name__ == "__main__":
    main()
