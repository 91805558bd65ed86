"""Dead letters in a real topic: read back, and sent again, each once."""

from __future__ import annotations

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
    assert done == {"node": "rows", "to": {source: 1}, "rows": 1, "done": True, "more": False}
    assert [record.value for record in consume_all(broker, source)][-1] == b"no json"
    steps = headrace(["dead-letters", "redrive", "p.yaml", "--node", "halves", "--to", again, "--yes"], tmp_path)
    assert (steps.code, len(consume_all(broker, again))) == (0, 2)
