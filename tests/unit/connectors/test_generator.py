from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.connect.restored import restored
from headrace.connect.source import RowBatch, SourceContext
from headrace.core.errors import UserError
from headrace.core.types import Schema, schema_of
from headrace_connectors.generator import GeneratorSourceConfig
from support.suite.properties import weighted

SCHEMA = schema_of(
    {
        "id": "int64 not null",
        "key": "int32",
        "share": "float64",
        "on": "bool",
        "city": "string",
        "at": "timestamp",
        "day": "date",
        "note": "string",
        "price": "decimal(10,2)",
    }
)
COLUMNS: dict[str, Any] = {
    "id": {"sequence": {"start": "100", "step": "2"}},
    "key": {"int": {"min": "-3", "max": "3"}, "nulls": "0.25"},
    "share": {"float": {"min": "1", "max": "2"}},
    "on": {"bool": {"probability": "0.9"}},
    "city": {"choice": ["Oslo", "Quito"]},
    "at": {"time": {"start": "2024-01-01T00:00:00Z", "step": "1s", "jitter": "500ms"}},
    "day": {"choice": ["2024-01-01", "2024-02-29"]},
    "note": {"string": {"length": "30"}},
    "price": {"int": {"max": "99"}},
}


def rows_of(config: GeneratorSourceConfig, schema: Schema, rows_max: int = 16_384) -> dict[int, pl.DataFrame]:
    context = SourceContext("p", "n", schema, poll_rows_max=rows_max)
    reader = config.open_reader(context)
    splits = config.open_enumerator(context).discover()
    reader.assign(splits)
    parts: dict[int, list[pl.DataFrame]] = {split.id.partition: [] for split in splits}
    finished = 0
    while finished < len(splits):
        polled = reader.poll(1)
        finished += len(polled.finished)
        if polled.batch is not None:
            assert isinstance(polled.batch, RowBatch)
            parts[polled.batch.runs[0].split.partition].append(polled.batch.rows)
    return {partition: pl.concat(frames) for partition, frames in parts.items() if frames}


def config_of(**fields: Any) -> GeneratorSourceConfig:
    return GeneratorSourceConfig.model_validate({"rows": 4000, "seed": 1, "columns": COLUMNS} | fields)


def test_values_keep_their_rules() -> None:
    rows = rows_of(config_of(), SCHEMA)[0]
    assert dict(rows.schema) == SCHEMA.polars()
    assert rows["id"].to_list() == list(range(100, 8100, 2))
    assert set(rows["key"].drop_nulls().to_list()) == set(range(-3, 4))
    assert 800 < rows["key"].null_count() < 1200
    assert rows["share"].is_between(1, 2).all()
    assert 3400 < rows["on"].sum() < 3800
    assert set(rows["city"].to_list()) == {"Oslo", "Quito"}
    stamps = (rows["at"].cast(pl.Int64) // 1000).to_list()
    lateness = [stamp - 1704067200000 - 1000 * row for row, stamp in enumerate(stamps)]
    assert min(lateness) >= 0
    assert 450 < max(lateness) <= 500
    assert rows["note"].str.len_chars().unique().to_list() == [30]
    assert rows["note"].n_unique() == 4000


@weighted(0.3)
@given(seed=st.integers(0, 2**40), rows=st.integers(1, 300), partitions=st.integers(1, 4), rows_max=st.integers(1, 50))
def test_batches_change_nothing_and_partitions_share_the_rows(
    seed: int, rows: int, partitions: int, rows_max: int
) -> None:
    config = config_of(seed=seed, rows=rows, partitions=partitions)
    small, whole = rows_of(config, SCHEMA, rows_max), rows_of(config, SCHEMA)
    assert small.keys() == whole.keys()
    assert all(small[partition].equals(whole[partition]) for partition in whole)
    together = pl.concat(whole.values()).sort("id")
    assert together.equals(rows_of(config_of(seed=seed, rows=rows), SCHEMA)[0])


def test_seed_and_name_decide() -> None:
    schema = schema_of({"a": "int64", "b": "int64"})
    rule = {"int": {"max": 10**9}}
    first = rows_of(config_of(columns={"a": rule, "b": rule}), schema)[0]
    assert not first["a"].equals(first["b"].alias("a"))
    alone = rows_of(config_of(columns={"a": rule}), schema_of({"a": "int64"}))[0]
    assert first["a"].equals(alone["a"])
    other = rows_of(config_of(columns={"a": rule}, seed=2), schema_of({"a": "int64"}))[0]
    assert (alone["a"] == other["a"]).sum() == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": {}}, "exactly one rule"),
        ({"a": {"int": {"max": 1}, "bool": {}}}, "exactly one rule"),
        ({"a": {"int": {"min": 5, "max": 1}}}, "min 5 is above max 1"),
        ({"a": {"random": {}}}, "Extra inputs"),
        ({"a": {"int": {"max": 1}, "nulls": 2}}, "less than or equal to 1"),
        ({}, "at least 1 item"),
    ],
)
def test_rules_that_are_wrong(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        config_of(columns=columns)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "types", "message"),
    [
        ({"idd": {"sequence": {}}}, {"id": "int64"}, "makes 'idd', which is no column"),
        ({"a": {"sequence": {}}}, {"a": "int64", "b": "int64 not null"}, "'b' is not null, but no rule makes it"),
        ({"a": {"int": {"max": 1}, "nulls": 0.1}}, {"a": "int64 not null"}, "but its rule makes NULLs"),
        ({"a": {"choice": ["x"]}}, {"a": "int64"}, "a choice of generated column 'a' is no int64"),
    ],
)
def test_rules_and_schema_must_agree(columns: dict[str, Any], types: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        rows_of(config_of(columns=columns), schema_of(types))
    assert message in str(raised.value)


def test_unbounded_without_rows() -> None:
    config = config_of(rows=None)
    assert not config.bounded
    assert config.open_enumerator(SourceContext("p", "n", SCHEMA)).discover()[0].stop is None


def test_a_stop_in_each_partition() -> None:
    whole = rows_of(config_of(partitions=3), SCHEMA)
    stop = {"0": 0, "1": "17", "2": 1333}
    for place in (stop, {"n": stop}):
        cut = rows_of(config_of(partitions=3, stop=place), SCHEMA, rows_max=10)
        assert {partition: frame.height for partition, frame in cut.items()} == {1: 17, 2: 1333}
        assert cut[1].equals(whole[1][:17])
        assert cut[2].equals(whole[2])


def test_a_stop_bounds_rows_without_end_and_latest_does_not() -> None:
    config = GeneratorSourceConfig.model_validate({"columns": COLUMNS, "stop": {"0": "12"}})
    assert config.bounded
    assert rows_of(config, SCHEMA)[0].height == 12
    with pytest.raises(ValidationError, match="without end"):
        GeneratorSourceConfig.model_validate({"columns": COLUMNS, "stop": "latest"})


def test_a_stop_past_the_end() -> None:
    config = config_of(partitions=3, stop={"0": 0, "1": 0, "2": 1334})
    with pytest.raises(UserError, match="ends at offset 1333"):
        config.open_enumerator(SourceContext("p", "n", SCHEMA)).discover()


def test_another_job_stops_where_it_says() -> None:
    context = SourceContext("p", "n", SCHEMA)
    before = config_of(stop={"0": 5}).open_enumerator(context).discover()
    for foreign, stop in ((True, 9), (False, 5)):
        config = config_of(stop={"0": 9})
        (split,) = restored(config.open_enumerator(context), "n", before, foreign=foreign).discover()
        assert split.stop == stop
