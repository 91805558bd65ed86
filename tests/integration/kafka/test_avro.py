"""Plain Avro from Kafka to Kafka by `headrace run`: an older writer's schema in, one with a default out."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import headrace

pytestmark = pytest.mark.broker

ORDER = """{"type": "record", "name": "Order", "fields": [
  {"name": "shop", "type": {"type": "enum", "name": "Shop", "symbols": ["NORTH", "SOUTH"]}},
  {"name": "id", "type": "int"}, {"name": "tags", "type": {"type": "array", "items": "string"}},
  {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}]}]}"""
PRICED = """{"type": "record", "name": "Priced", "fields": [
  {"name": "id", "type": "long"},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
  {"name": "shop", "type": ["null", "string"]}, {"name": "origin", "type": "string", "default": "orders"}]}"""
PIPELINE = """
name: priced
sources:
  orders:
    kafka: {{brokers: "{brokers}", topic: {source}, stop: latest}}
    format: {{avro: {{schema_file: schemas/order.avsc}}}}
    schema: {{id: int64 not null, price: "decimal(8,2)", shop: string, added: timestamp}}
    on_error: {{dead_letter: {dead}}}
steps:
  priced: {{from: orders, filter: price is not null}}
  chosen: {{from: priced, select: {{id: id, price: price, shop: shop}}}}
sinks:
  out:
    from: chosen
    kafka: {{brokers: "{brokers}", topic: {out}}}
    format: {{avro: {{schema_file: schemas/priced.avsc}}}}
"""


def test_rows_pass_from_one_schema_to_another(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source, out, dead = (create_topic(broker, unique_topic(name), 1) for name in ("in", "out", "dead"))
    names = {"brokers": broker.bootstrap, "source": source, "out": out, "dead": dead}
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "order.avsc").write_text(ORDER)
    (tmp_path / "schemas" / "priced.avsc").write_text(PRICED)
    (tmp_path / "p.yaml").write_text(PIPELINE.format(**names))
    # shop, id, tags, price: NORTH 5 [a] 12.34; SOUTH 6 [] NULL; SOUTH 7 [] -0.01, and one that ends early
    good = [b"\x00\x0a\x02\x02a\x00\x02\x04\x04\xd2", b"\x02\x0c\x00\x00", b"\x02\x0e\x00\x02\x02\xff"]
    produce(broker, source, [*good, b"\x02\x0e"])

    finished = headrace(["run", "p.yaml", "--json"], tmp_path)

    assert finished.code == 0, finished.err
    schema = fastavro.parse_schema(fastavro.schema.load_schema(str(tmp_path / "schemas" / "priced.avsc")))
    rows = [fastavro.schemaless_reader(io.BytesIO(one.value or b""), schema, None) for one in consume_all(broker, out)]
    assert rows == [
        {"id": 5, "price": Decimal("12.34"), "shop": "NORTH", "origin": "orders"},
        {"id": 7, "price": Decimal("-0.01"), "shop": "SOUTH", "origin": "orders"},
    ]
    (letter,) = consume_all(broker, dead)
    assert letter.value == b"\x02\x0e"
    assert b"it ends early" in (dict(letter.headers)["reason"] or b"")


def test_columns_that_the_schema_does_not_take_are_found_before_the_first_row(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    source = create_topic(broker, unique_topic("in"), 1)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "order.avsc").write_text(ORDER)
    (tmp_path / "schemas" / "priced.avsc").write_text(PRICED.replace('"long"', '"int"'))
    names = {"brokers": broker.bootstrap, "source": source, "out": unique_topic("out"), "dead": unique_topic("dead")}
    (tmp_path / "p.yaml").write_text(PIPELINE.format(**names))
    finished = headrace(["run", "p.yaml"], tmp_path)
    assert finished.code != 0
    assert "column id: int64 cannot be written as int" in finished.err
