"""Rows that fail in a step become dead letters that say where the row came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import headrace

pytestmark = pytest.mark.broker

PIPELINE = """\
name: letters
sources:
  texts:
    kafka: {{brokers: "{brokers}", topic: "{source}", start: earliest, stop: latest}}
    format: raw
    schema: {{text: string}}
steps:
  numbers:
    from: texts
    with_columns:
      n: cast(text as int64)
    on_error: {{dead_letter: {dead}}}
sinks:
  out:
    from: numbers
    print: {{}}
    format: json
"""


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_step_s_dead_letters_name_the_source_row(broker: EmbeddedBroker, tmp_path: Path, parallelism: int) -> None:
    source, dead = (create_topic(broker, unique_topic(name), 2) for name in ("in", "dead"))
    produce(broker, source, [b"1", b"one", b"2", b"two"], partition=[0, 0, 1, 1])
    (tmp_path / "p.yaml").write_text(PIPELINE.format(brokers=broker.bootstrap, source=source, dead=dead))

    done = headrace(["run", "p.yaml", "--parallelism", str(parallelism)], tmp_path)

    assert done.code == 0, done.err
    letters = consume_all(broker, dead)
    assert sorted((record.value or b"", dict(record.headers)["partition"] or b"") for record in letters) == [
        (b'{"text":"one"}', b"0"),
        (b'{"text":"two"}', b"1"),
    ]
    for record in letters:
        headers = dict(record.headers)
        assert headers["topic"] == source.encode()
        assert headers["offset"] == b"1"
        assert b"cannot convert" in (headers["reason"] or b"")
