"""Keys of records to columns and back: as Kafka's own serializers write integers, and as JSON."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob
from headrace.spec.reading.read import pipeline_from_dict
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("form", ["raw", "json"])
def test_keys_become_columns_and_keys_again(broker: EmbeddedBroker, tmp_path: Path, form: str) -> None:
    source, out, dead = (create_topic(broker, unique_topic(name), 3) for name in ("in", "out", "dead"))
    numbers = [1, -1, 2**40, 256, 7]
    keys = [struct.pack(">q", each) if form == "raw" else json.dumps({"id": each}).encode() for each in numbers]
    values = [f'{{"n":{place}}}' for place in range(5)]
    produce(broker, source, [*values, "{}"], keys=[*keys, b"?"])
    kafka = {"brokers": broker.bootstrap}
    document = {
        "name": "keyed",
        "sources": {
            "s": {
                "kafka": {**kafka, "topic": source, "stop": "latest"},
                "format": "json",
                "schema": {"n": "int64"},
                "key_format": form,
                "key_schema": {"id": "int64"},
                "on_error": {"dead_letter": dead},
            }
        },
        "sinks": {
            "out": {
                "from": "s",
                "kafka": {**kafka, "topic": out, "key": ["id"], "mode": "upsert"},
                "format": "json",
                "key_format": form,
            }
        },
    }
    job = LocalJob(compile_pipeline(pipeline_from_dict(document)).physical, JobOptions())
    assert job.run(lambda _: None) is JobState.FINISHED

    records = consume_all(broker, out)
    ids = {each.key: json.loads(each.value or b"")["id"] for each in records}
    wanted = [key if form == "raw" else key.replace(b" ", b"") for key in keys]
    assert ids == dict(zip(wanted, numbers, strict=True))
    (letter,) = consume_all(broker, dead)
    assert (letter.key, letter.value) == (b"?", b"{}")
    headers = dict(letter.headers)
    assert b"key: " in (headers["reason"] or b"")
