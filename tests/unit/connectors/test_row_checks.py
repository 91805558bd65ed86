"""Rows that a sink refuses when it writes them are refused beforehand, and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from confluent_kafka import KafkaException, Producer
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.row_check import Encode, Refused, RowCheck, raise_refused
from headrace.connect.sink import SinkBatch, SinkConfig, SinkContext
from headrace.core.batch import TS
from headrace.core.errors import DataError
from headrace.core.types import schema_of
from headrace.formats.json.encode import encode_json_object
from headrace_connectors.files import FilesSinkConfig
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.sink.record_sender import AcceptedRecords, KafkaRowCheck, RecordSender
from headrace_connectors.kafka.sink.refusals import RefusedRecords, TopicLimits
from headrace_connectors.sql import SqlSinkConfig

SCHEMA = schema_of({"k": "string", "n": "int64", "texts": "[string]", "part": "{text: string}"})
LIMIT = 2_000


def context(**fields: Any) -> SinkContext:
    return SinkContext("j", "out", 0, 1, **{"schema": SCHEMA} | fields)


def made(k: str | None = "a", n: int | None = 1, texts: list[str] | None = None, part: str = "") -> pl.DataFrame:
    rows = pl.DataFrame([{"k": k, "n": n, "texts": texts, "part": {"text": part}}], SCHEMA.polars())
    return pl.concat([rows.with_columns(k=pl.lit("b"), n=pl.lit(0, pl.Int64)), rows]).with_columns(pl.lit(0).alias(TS))


def refused(check: RowCheck, rows: pl.DataFrame) -> str | None:
    try:
        raise_refused("out", rows, check.refused(rows))
    except DataError as error:
        assert error.node == "out"
        return str(error)
    return None


def as_json(rows: pl.DataFrame) -> object:
    return encode_json_object(rows, SCHEMA.names)


encode: Encode = as_json


@pytest.fixture(scope="module")
def producer() -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": LIMIT, "log_level": 0})
    yield producer
    producer.purge()
    producer.flush(0)


class TestKafka:
    @staticmethod
    def check(config: KafkaSinkConfig) -> RowCheck:
        check = config.open_check(context(format="json"), encode)
        assert check is not None
        return check

    @staticmethod
    def config(**fields: Any) -> KafkaSinkConfig:
        properties = {"message.max.bytes": LIMIT}
        return KafkaSinkConfig.model_validate({"brokers": "b:1", "topic": "t", "properties": properties} | fields)

    @pytest.mark.parametrize("key", ["k", "n"])
    def test_a_row_without_a_key_in_upsert_mode(self, key: str) -> None:
        rows = made(k=None, n=None)
        told = refused(self.check(self.config(mode="upsert", key=[key])), rows)
        assert told is not None
        assert f"a row has no key ({key} is NULL)" in told
        assert "'n': None" in told
        for fields in ({"key": [key]}, {"mode": "upsert", "key": ["k", "n"]}):
            assert refused(self.check(self.config(**fields)), rows) is None

    @pytest.mark.parametrize("fields", [{}, {"key": ["n", "k"]}, {"headers": {"h": "k", "n": "n"}}])
    @pytest.mark.parametrize("column", ["k", "texts", "part"])
    @pytest.mark.parametrize("character", ["x", '"', "é"])
    def test_a_record_too_large_for_the_client(
        self, producer: Producer, fields: dict[str, Any], column: str, character: str
    ) -> None:
        config = self.config(**fields)
        check = self.check(config)

        def rows(length: int) -> pl.DataFrame:
            text = character * length
            given: dict[str, Any] = {column: [text, "y"] if column == "texts" else text}
            return made(**given)

        def fits(length: int) -> bool:
            part = rows(length)[1:]
            records = RecordSender(config, context(format="json")).records(SinkBatch(part, encode(part)))
            key = None if records.keys is None else records.keys[0].as_py()
            headers: list[tuple[str, str | bytes | None]] = [] if records.headers is None else [*records.headers[0]]
            try:
                producer.produce("t", records.values[0].as_py(), key=key, headers=headers)
            except KafkaException:
                return False
            return True

        low, high = 0, LIMIT
        while low < high - 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        assert refused(check, rows(low)) is None
        told = refused(check, rows(high))
        assert told is not None
        assert f"most of them of column {column}, and message.max.bytes is 2,000" in told
        assert len(told) < 1_000, "the row is not shown whole"

    @given(
        st.lists(
            st.tuples(
                st.sampled_from([None, "", "k", "k" * 500]),
                st.sampled_from([0, 1, LIMIT // 2, LIMIT - 100, LIMIT]),
                st.sampled_from([None, 0, -1, 1, 1_700_000_000_000]),
            ),
            max_size=20,
        ),
        st.booleans(),
        st.booleans(),
    )
    def test_every_bad_row_is_named_and_no_other(
        self, drawn: list[tuple[str | None, int, int | None]], upserts: bool, stamped: bool
    ) -> None:
        config = self.config(key="k", mode="upsert" if upserts else "append", timestamp="event" if stamped else "wall")
        schema = schema_of({"k": "string", "text": "string"})

        def as_texts(rows: pl.DataFrame) -> object:
            return encode_json_object(rows, schema.names)

        rows = pl.DataFrame(
            {
                "k": [k for k, _, _ in drawn],
                "text": ["x" * length for _, length, _ in drawn],
                TS: [at for *_, at in drawn],
            },
            {"k": pl.String, "text": pl.String, TS: pl.Int64},
        )
        expected = {}
        for number, (k, length, at) in enumerate(drawn):
            size = len(k or "") + len(json.dumps({"k": k, "text": "x" * length}, separators=(",", ":"))) + 36
            if upserts and k is None:
                expected[number] = "a row has no key"
            elif stamped and at is None:
                expected[number] = "a row has no event time"
            elif stamped and at in (0, -1):
                expected[number] = f"a row has the event time {at} ms"
            elif size > LIMIT:
                expected[number] = f"the record of a row has {size:,} bytes"
        told = context(schema=schema, format="json")
        check = config.open_check(told, as_texts)
        assert check is not None
        found = check.refused(rows)
        assert {number: refusal.why[: len(expected.get(number, ""))] for number, refusal in found.items()} == expected
        # the writer refuses the same rows
        written: list[Refused] = []
        accepted = AcceptedRecords(
            config, replace(told, refuse=lambda _, refused: written.append(refused)), RecordSender(config, told)
        )
        accepted._refused = RefusedRecords(config, TopicLimits)
        records = accepted.of(SinkBatch(rows, as_texts(rows)))
        assert sum(map(len, written)) == len(expected)
        assert (0 if records is None else len(records)) == len(drawn) - len(expected)

    def test_rows_that_cannot_be_large_are_not_encoded(self) -> None:
        def never(_rows: pl.DataFrame) -> object:
            raise AssertionError("encoded")

        check = KafkaRowCheck(self.config(), context(format="json"), never)
        assert not check.refused(made("x" * 200, 1, ["y" * 20], "z"))


@pytest.mark.parametrize("form", ["csv", "raw", "json", "parquet"])
@pytest.mark.parametrize("value", ["plain", "two\nlines", "\r", "end\r", "mid\rdle", None])
def test_text_files_have_a_row_a_line_or_quote_its_line_breaks(tmp_path: Path, form: str, value: str | None) -> None:
    config = FilesSinkConfig(path=str(tmp_path / "out"))
    told = context(schema=schema_of({"k": "string"}), format=form)
    rows = pl.DataFrame({"k": ["first", value]})
    check = config.open_check(told, None)
    message = None if check is None else refused(check, rows)
    assert (message is None) is written(config, told, rows)
    if message is not None:
        assert "column k has a line break" in message
        assert "first" not in message


def written(config: SinkConfig, told: SinkContext, rows: pl.DataFrame) -> bool:
    writer = config.open_writer(told)
    try:
        writer.write(SinkBatch(rows))
        writer.flush(1)
    except DataError:
        return False
    finally:
        writer.close()
    return True


@pytest.mark.parametrize(("k", "n", "column"), [("a", 1, None), (None, 1, "k"), ("a", None, "n")])
def test_a_table_needs_every_column_of_its_key(
    tmp_path: Path, k: str | None, n: int | None, column: str | None
) -> None:
    config = SqlSinkConfig.model_validate(
        {"url": f"sqlite:///{tmp_path}/x.db", "table": "t", "mode": "upsert", "key": ["k", "n"], "create_table": True}
    )
    told = context(schema=schema_of({"k": "string", "n": "int64"}))
    config.prepare(told)
    rows = made(k, n).select("k", "n", TS)
    check = config.open_check(told, None)
    assert check is not None
    message = refused(check, rows)
    assert (message is None) is written(config, told, rows) is (column is None)
    assert message is None or f"({column} is NULL)" in message


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize(("f", "written_there"), [(0.5, True), (float("inf"), True), (float("nan"), False)])
def test_a_key_that_sqlite_would_store_as_null_is_refused(
    tmp_path: Path, f: float, written_there: bool, delivery: str
) -> None:
    config = SqlSinkConfig.model_validate(
        {"url": f"sqlite:///{tmp_path}/x.db", "table": "t", "mode": "upsert", "key": ["f"], "create_table": True}
        | {"delivery": delivery}
    )
    told = context(schema=schema_of({"f": "float64", "n": "int64"}))
    config.prepare(told)
    rows = pl.DataFrame({"f": [1.5, f], "n": [1, 2], TS: [0, 0]})
    check = config.open_check(told, None)
    assert check is not None
    message = refused(check, rows)
    assert (message is None) is written(config, told, rows) is written_there
    assert message is None or "(f is NaN, which SQLite stores as NULL)" in message
