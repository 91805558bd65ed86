"""Rows that a Kafka sink cannot write leave by its `on_error`, and the others are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import Record, consume_all, create_topic, produce, unique_topic
from support.processes.running import Finished, headrace

pytestmark = pytest.mark.broker

PIPELINE = """\
name: {name}
parallelism: {parallelism}
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: "{source}", start: earliest, stop: latest}}
    format: json
    schema: {{k: string, n: int64, wide: bool, at: timestamp}}
    time: {{column: at}}
steps:
{steps}  wide:
    from: rows
    select:
      k: k
      n: n
      text: case when wide then repeat(repeat('x', 60000), 20) else 'x' end
sinks:
  out:
    from: wide
    kafka: {{brokers: "{brokers}", topic: "{out}", key: [k], {fields}}}
    format: json
    on_error: {on_error}
"""
ROWS: list[dict[str, Any]] = [
    {"k": "a", "n": 0, "wide": False, "at": "2024-01-01T00:00:00Z"},
    {"k": "b", "n": 1, "wide": True, "at": "2024-01-01T00:00:00Z"},
    {"k": None, "n": 2, "wide": False, "at": "2024-01-01T00:00:00Z"},
    {"k": "a", "n": 3, "wide": False, "at": "1970-01-01T00:00:00Z"},
    {"k": "a", "n": 4, "wide": False, "at": "2024-01-01T00:00:00Z"},
]
"""Bad for upserts with the time of events: 1 is too large, 2 has no key, 3 a time that no record can carry."""


class Flow:
    """A pipeline of `ROWS` and the topics of its run."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, *, parallelism: int = 1) -> None:
        self._broker, self._folder, self._parallelism = broker, folder, parallelism
        self.source, self.out, self.dead = (create_topic(broker, unique_topic(name), 2) for name in ("i", "o", "d"))
        produce(broker, self.source, [json.dumps(row) for row in ROWS], partition=0)

    def run(self, on_error: str, *, delivery: str = "at-least-once", steps: str = "", more_sinks: str = "") -> Finished:
        text = PIPELINE.format(
            steps=steps,
            name=unique_topic("p"),
            parallelism=self._parallelism,
            brokers=self._broker.bootstrap,
            source=self.source,
            out=self.out,
            fields=f"mode: upsert, timestamp: event, delivery: {delivery}",
            on_error=on_error.format(dead=self.dead),
        )
        (self._folder / "p.yaml").write_text(
            text + more_sinks.format(brokers=self._broker.bootstrap, dead=self.dead, delivery=delivery)
        )
        return headrace(["run", "p.yaml", "--json"], self._folder)

    def written(self) -> list[int]:
        return sorted(json.loads(record.value or b"")["n"] for record in consume_all(self._broker, self.out))

    def letters(self) -> list[Record]:
        return consume_all(self._broker, self.dead)


@pytest.fixture(params=["at-least-once", "exactly-once"])
def delivery(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_skipped_rows_are_counted_and_the_others_written(broker: EmbeddedBroker, tmp_path: Path, delivery: str) -> None:
    flow = Flow(broker, tmp_path)
    done = flow.run("skip", delivery=delivery)
    assert done.code == 0, done.err
    assert flow.written() == [0, 4]
    assert (done.json["rows_in"], done.json["rows_out"], done.json["bad"]) == (5, 2, 3)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_dead_letters_have_the_row_its_place_and_its_reason(
    broker: EmbeddedBroker, tmp_path: Path, delivery: str, parallelism: int
) -> None:
    flow = Flow(broker, tmp_path, parallelism=parallelism)
    done = flow.run("{{dead_letter: {dead}}}", delivery=delivery)
    assert done.code == 0, done.err
    assert flow.written() == [0, 4]
    letters = {int(headers(letter)["offset"]): letter for letter in flow.letters()}
    assert {number: headers(letter)["reason"].split(" (")[0] for number, letter in letters.items()} == {
        1: "the record of a row has 1,200,062 bytes, most of them of column text, and message.max.bytes is 1,000,000",
        2: "a row has no key",
        3: "a row has the event time 0 ms, which no record can carry, and `timestamp: event` needs one",
    }
    assert {headers(letter)["topic"] for letter in letters.values()} == {flow.source}
    # what is too large for the sink's topic is too large for that of dead letters as well: its place says what it was
    assert {number: (letter.key, letter.value) for number, letter in letters.items()} == {
        1: (None, None),
        2: (None, b'{"k":null,"n":2,"text":"x"}'),
        3: (b"a", b'{"k":"a","n":3,"text":"x"}'),
    }
    assert (done.json["rows_out"], done.json["bad"]) == (2, 3)
    listed = headrace(["dead-letters", "list", "p.yaml", "--node", "out", "--json"], tmp_path).json["letters"]
    assert {each["origin"] for each in listed} == {f"{flow.source}[0] offset {number}" for number in (1, 2, 3)}
    again = create_topic(broker, unique_topic("again"), 1)
    redrive = ["dead-letters", "redrive", "p.yaml", "--node", "out", "--to", again, "--yes", "--json"]
    first, second = (headrace(redrive, tmp_path).json for _ in range(2))
    # the one without content is passed over, once
    assert (first["to"], first["empty"], second["to"], second["empty"]) == ({again: 2}, 1, {}, 0)
    assert {letter.value for letter in consume_all(broker, again)} == {letters[n].value for n in (2, 3)}


def headers(letter: Record) -> Mapping[str, str]:
    return {name: value.decode() for name, value in letter.headers if isinstance(value, bytes)}


FOUND = """\
  found:
    from: out.bad
    select: {n: n, why: reason}
"""
KEPT = """\
  kept:
    from: found
    kafka: {{brokers: "{brokers}", topic: "{dead}", delivery: {delivery}}}
    format: json
    parallelism: 1
"""


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_output_bad_has_readers_of_its_own(
    broker: EmbeddedBroker, tmp_path: Path, delivery: str, parallelism: int
) -> None:
    """In the sink's task, and in another one."""
    flow = Flow(broker, tmp_path, parallelism=parallelism)
    done = flow.run("divert", delivery=delivery, steps=FOUND, more_sinks=KEPT)
    assert done.code == 0, done.err
    assert flow.written() == [0, 4]
    assert sorted(json.loads(letter.value or b"")["n"] for letter in flow.letters()) == [1, 2, 3]


def test_with_fail_the_row_ends_the_job(broker: EmbeddedBroker, tmp_path: Path) -> None:
    done = Flow(broker, tmp_path).run("fail")
    assert (done.code, done.json["state"]) == (1, "FAILED")
    assert "the record of a row has 1,200,062 bytes, most of them of column text" in done.err
    assert "'n': 1" in done.err
