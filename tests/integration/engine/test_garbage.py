"""Broken messages through a real broker: no good row is lost, every bad one is accounted for with its offset."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import headrace

pytestmark = pytest.mark.broker

ROWS, PARTITIONS = 30_000, 3
BROKEN: list[bytes | None] = [
    b'{"id": 1, "x": 0.5',
    b'{"id": "1", "x": 0.5}',
    b'{"id": 1.5, "x": 0.5}',
    b'{"id": null, "x": 0.5}',
    b'{"x": 0.5}',
    b"",
    b"  ",
    b'{"id": 1, "x": "a\nb"}',
    b'{"id": 1, "x": 1, "s": "\xff"}',
    b'[{"id": 1}]',
    b'{"id": 1, "x": NaN}',
    b'{"id": 9223372036854775808, "x": 1}',
    b'{"id": 1, "s": 5}',
    b"null",
    None,
]
PRETTY = b'{\n  "id": %d,\n  "x": 0.5, "s": "12"\n}'


def pipeline(brokers: str, source: str, out: str, dead: str) -> str:
    return f"""
name: garbage
parallelism: 2
batch: {{max_rows: 4096}}
sources:
  rows:
    kafka:
      brokers: {brokers}
      topic: {source}
      stop: latest
    format: json
    schema:
      id: int64 not null
      x: float64
      s: string
    on_error: {{dead_letter: {dead}}}
sinks:
  out:
    from: rows
    kafka:
      brokers: {brokers}
      topic: {out}
    format: json
"""


def test_every_message_is_accounted_for(broker: EmbeddedBroker, tmp_path: Path) -> None:
    rng = random.Random(5)
    values: list[bytes | None] = []
    for number in range(ROWS):
        good = PRETTY % number if rng.random() < 0.01 else b'{"id": %d, "x": %r, "s": "n"}' % (number, number / 8)
        values.append(rng.choice(BROKEN) if rng.random() < 0.01 else good)
    source, out, dead = (create_topic(broker, unique_topic(name), PARTITIONS) for name in ("in", "out", "dead"))
    partitions = [number % PARTITIONS for number in range(ROWS)]
    produce(broker, source, values, partition=partitions)
    (tmp_path / "p.yaml").write_text(pipeline(broker.bootstrap, source, out, dead))

    done = headrace(["run", "p.yaml", "--json"], tmp_path)

    assert done.code == 0, done.err
    expected_bad: dict[tuple[int, int], bytes] = {}
    good_ids: list[int] = []
    for number, value in enumerate(values):
        if value in BROKEN:
            if value is not None:
                expected_bad[number % PARTITIONS, number // PARTITIONS] = value
        else:
            good_ids.append(number)
    ids = sorted(json.loads(record.value or b"")["id"] for record in consume_all(broker, out))
    assert ids == good_ids
    letters = {}
    for record in consume_all(broker, dead):
        headers = dict(record.headers)
        assert headers["topic"] == source.encode()
        assert headers["reason"]
        place = (int(headers["partition"] or b""), int(headers["offset"] or b""))
        letters[place] = record.value
    assert letters == expected_bad
    assert done.json["rows_in"] == ROWS
    assert done.json["bad"] == len(expected_bad)
    assert done.json["rows_out"] == len(good_ids)
