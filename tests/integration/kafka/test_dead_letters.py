"""Dead letters in a real topic: read back, and sent again, each once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.connect.sink import SinkContext
from headrace.core.errors import UserError
from headrace.core.types import Schema
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.dead_letters import KafkaDeadLetters
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import Record, consume_all, create_topic, produce, unique_topic
from support.processes.running import headrace

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

PIPELINE = """\
name: letters
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: "{source}", start: earliest, stop: latest}}
    format: json
    schema: {{n: int64}}
    on_error: {{dead_letter: {dead}}}
steps:
  halves:
    from: rows
    with_columns:
      half: cast(cast(n as string) || 'x' as int64)
    on_error: {{dead_letter: {step_dead}}}
sinks:
  out:
    from: halves
    print: {{}}
    format: json
"""


def opened(broker: EmbeddedBroker, topic: str, node: str) -> KafkaDeadLetters:
    config = KafkaSinkSettings.model_validate({"brokers": broker.bootstrap, "topic": topic})
    context = SinkContext(job="letters", node=node, subtask=0, parallelism=1, schema=Schema(()))
    return KafkaDeadLetters(config, context)


def texts(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.partition, record.key, record.value) for record in sorted(records, key=lambda each: each.offset)]


def test_letters_are_sent_once_however_often_it_is_asked(broker: EmbeddedBroker) -> None:
    dead, source = (create_topic(broker, unique_topic(name), 2) for name in ("dead", "in"))
    origin = [[("topic", source), ("partition", "1"), ("offset", str(n)), ("reason", "no JSON")] for n in range(5)]
    produce(broker, dead, [f"bad {n}" for n in range(5)], keys=["k"] * 5, partition=0, headers=origin)  # type: ignore[arg-type]
    letters = opened(broker, dead, unique_topic("node"))
    try:
        newest = letters.newest(2)
        assert [(each.value, each.reason, each.origin_position) for each in newest] == [
            (b"bad 3", "no JSON", 3),
            (b"bad 4", "no JSON", 4),
        ]
        assert newest[0].origin == (source, 1)
        assert letters.resend(None, 3, do=False) == letters.resend(None, 3, do=False)
        assert consume_all(broker, source) == []
        first, second, third = (letters.resend(None, 3, do=True) for _ in range(3))
        assert [(each.to, each.more) for each in (first, second, third)] == [
            ({source: 3}, True),
            ({source: 2}, False),
            ({}, False),
        ]
        assert texts(consume_all(broker, source)) == [(1, b"k", f"bad {n}".encode()) for n in range(5)]
        produce(broker, dead, ["later"], partition=1)
        with pytest.raises(UserError, match="has no header with its source topic"):
            letters.resend(None, 3, do=True)
        with pytest.raises(UserError, match="does not exist"):
            letters.resend(unique_topic("nowhere"), 3, do=True)
        assert letters.resend(source, 3, do=True).to == {source: 1}
    finally:
        letters.close()


def test_a_topic_that_nobody_made_holds_no_letters(broker: EmbeddedBroker) -> None:
    letters = opened(broker, unique_topic("never"), "rows.bad")
    assert (letters.newest(10), letters.resend(None, 10, do=True).rows) == ([], 0)
    letters.close()


def test_the_commands_on_a_pipeline_file(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source, dead, step_dead, again = (create_topic(broker, unique_topic(name), 1) for name in ("i", "d", "s", "a"))
    produce(broker, source, ['{"n":1}', "no json", '{"n":2}'])
    (tmp_path / "p.yaml").write_text(
        PIPELINE.format(brokers=broker.bootstrap, source=source, dead=dead, step_dead=step_dead)
    )
    assert headrace(["run", "--threads", "p.yaml"], tmp_path).code == 0

    listed = headrace(["dead-letters", "list", "p.yaml", "--json"], tmp_path).json["letters"]
    assert sorted((each["node"], each["origin"], each["value"]) for each in listed) == [
        ("halves", f"{source}[0] offset 0", '{"n":1}'),
        ("halves", f"{source}[0] offset 2", '{"n":2}'),
        ("rows", f"{source}[0] offset 1", "no json"),
    ]
    refused = headrace(["dead-letters", "redrive", "p.yaml", "--node", "halves", "--yes"], tmp_path)
    assert (refused.code, "--to" in refused.err) == (2, True)
    dry = headrace(["dead-letters", "redrive", "p.yaml", "--node", "rows"], tmp_path)
    assert f"{source}: 1 letter would be sent" in dry.out

    done = headrace(["dead-letters", "redrive", "p.yaml", "--node", "rows", "--yes", "--json"], tmp_path).json
    assert done == {"node": "rows", "to": {source: 1}, "rows": 1, "done": True, "more": False, "empty": 0}
    assert [record.value for record in consume_all(broker, source)][-1] == b"no json"
    steps = headrace(["dead-letters", "redrive", "p.yaml", "--node", "halves", "--to", again, "--yes"], tmp_path)
    assert (steps.code, len(consume_all(broker, again))) == (0, 2)


WINDOWS = """\
name: letters
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: "{source}", start: earliest, stop: latest}}
    format: json
    schema: {{n: {type}}}
    time: {{out_of_orderness: 1h}}
    on_error: {{dead_letter: {dead}}}
steps:
  days: {{from: rows, key_by: [n], window: {{tumbling: 1d}}, aggregate: {{rows: count(*)}}}}
sinks:
  out: {{from: days, files: {{path: out}}, format: json}}
"""
DAY_2020, DAY_MS = 1_577_836_800_000, 86_400_000


@pytest.mark.parametrize("exactly_once", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_record_comes_back_as_it_was_and_into_its_own_window(
    broker: EmbeddedBroker, tmp_path: Path, *, exactly_once: bool
) -> None:
    source, dead = create_topic(broker, unique_topic("in"), 3), create_topic(broker, unique_topic("dead"), 1)
    # names that letters have, too; a name that comes twice; a header without a value
    headers = [("topic", b"theirs"), ("trace", b"abc\xff"), ("trace", None), ("reason", b"of theirs")]
    stamps = [DAY_2020, DAY_2020 + 5 * DAY_MS]
    produce(
        broker,
        source,
        ['{"n":"x"}', '{"n":"1"}'],
        keys=["k", "k"],
        partition=2,
        timestamps=stamps,
        headers=[headers, []],  # type: ignore[list-item]
    )

    def run(type_: str) -> dict[str, int]:
        text = WINDOWS.format(brokers=broker.bootstrap, source=source, dead=dead, type=type_)
        if exactly_once:
            text = text.replace("path: out", "path: out, delivery: exactly-once")
        (tmp_path / "p.yaml").write_text(text)
        done = headrace(["run", "p.yaml", "--json"], tmp_path)
        assert done.code == 0, done.err
        rows: dict[str, int] = done.json
        return {name: rows[name] for name in ("rows_in", "late", "bad")}

    # both are bad: texts where numbers are expected
    assert run("int64") == {"rows_in": 2, "late": 0, "bad": 2}
    assert headrace(["dead-letters", "redrive", "p.yaml", "--node", "rows", "--yes"], tmp_path).code == 0
    *before, one, two = sorted(consume_all(broker, source), key=lambda each: each.offset)
    assert [each.offset for each in before] == [0, 1]
    assert [(each.partition, each.key, each.value, each.timestamp) for each in (one, two)] == [
        (2, b"k", b'{"n":"x"}', stamps[0]),
        (2, b"k", b'{"n":"1"}', stamps[1]),
    ]
    assert (one.headers, two.headers) == (tuple(headers), ())
    # a later version can read them: each row is in the window of its own time, and time has not jumped to now
    produce(broker, source, ['{"n":"y"}'], keys=["k"], partition=2, timestamps=[DAY_2020 + 5 * DAY_MS])
    assert run("string") == {"rows_in": 5, "late": 1, "bad": 0}
    lines = [json.loads(line) for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
    # the redriven row of the first day is late behind the first copy of the second, as it is where it stood
    assert sorted((each["window_start"][:10], each["n"], each["rows"]) for each in lines) == [
        ("2020-01-01", "x", 1),
        ("2020-01-06", "1", 2),
        ("2020-01-06", "y", 1),
    ]


def test_a_partition_that_is_gone_is_not_asked_for(broker: EmbeddedBroker) -> None:
    source, dead = create_topic(broker, unique_topic("in"), 1), create_topic(broker, unique_topic("dead"), 1)
    place = [("topic", source), ("partition", "7"), ("offset", "0"), ("reason", "no JSON")]
    produce(broker, dead, ["bad"], headers=[place])  # type: ignore[list-item]
    letters = opened(broker, dead, unique_topic("node"))
    try:
        (letter,) = letters.newest(1)
        # a letter of an earlier version: no timestamp, and no headers of the record
        assert (letter.timestamp_ms, letter.headers) == (None, ())
        assert letters.resend(None, 5, do=True).to == {source: 1}
    finally:
        letters.close()
    (record,) = consume_all(broker, source)
    assert (record.partition, record.value, record.headers) == (0, b"bad", ())
