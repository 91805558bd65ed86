"""The archive sink: what it must be given, where files begin and end, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from headrace.connect.sink import SinkBatch, SinkContext, Writer
from headrace.core.errors import DataError
from headrace.core.types import Field, Primitive, Schema
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.raw import RawFormat
from headrace_connectors.archive import ArchiveSinkConfig
from headrace_connectors.kafka import KafkaSourceConfig
from support.storage.archive import SINK_SCHEMA


def batch(partition: int, offsets: Sequence[int], *, value: bytes = b"v") -> SinkBatch:
    return SinkBatch(
        pl.DataFrame(
            {
                "value": [value] * len(offsets),
                "topic": ["t"] * len(offsets),
                "partition": [partition] * len(offsets),
                "offset": offsets,
                "timestamp": [1_000_000] * len(offsets),
                "key": [None] * len(offsets),
                "headers": [[]] * len(offsets),
            },
            schema=SINK_SCHEMA.polars(),
        )
    )


def writer_in(path: Path, job: str = "j", **limits: int) -> Writer:
    return ArchiveSinkConfig(path=str(path), **limits).open_writer(SinkContext(job, "kept", 0, 1, SINK_SCHEMA))


def kept(path: Path, partition: int = 0) -> list[tuple[int, int]]:
    return [(file.first, file.next) for file in ArchiveFolder(str(path)).files("t", partition)]


def test_files_of_a_run_leave_no_gap_between_them(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.write(batch(0, [3, 4, 8]))
    writer.write(batch(1, [0]))
    assert kept(tmp_path) == []
    writer.flush(1)
    writer.write(batch(0, [15, 16]))
    writer.flush(2)
    writer.flush(3)
    writer.write(batch(0, [20]))
    writer.close()
    assert kept(tmp_path) == [(3, 9), (9, 17)]
    assert kept(tmp_path, 1) == [(0, 1)]


def test_a_restored_job_goes_on_behind_its_own_files(tmp_path: Path) -> None:
    first = writer_in(tmp_path, max_rows=2)
    first.write(batch(0, [0, 1]))
    first.flush(1)
    # put, but not decided: the checkpoint stands at 5, behind what is never delivered
    first.write(batch(0, [5, 6, 7]))
    first.close()
    assert kept(tmp_path) == [(0, 2), (2, 7)]
    again = writer_in(tmp_path)
    again.write(batch(0, [5, 6, 7, 8]))
    again.flush(2)
    assert kept(tmp_path) == [(0, 2), (2, 7), (2, 9)]
    other = writer_in(tmp_path, job="other")
    other.write(batch(0, [12]))
    other.flush(1)
    assert kept(tmp_path)[-1] == (12, 13), "of another job's files it is not known what it has read"


def test_files_are_cut_where_they_are_large(tmp_path: Path) -> None:
    rows = writer_in(tmp_path / "rows", max_rows=3)
    rows.write(batch(0, range(10)))
    assert kept(tmp_path / "rows") == [(0, 3), (3, 6), (6, 9)]
    rows.flush(1)
    assert kept(tmp_path / "rows")[-1] == (9, 10)
    size = writer_in(tmp_path / "bytes", max_bytes=5000)
    size.write(batch(0, [0, 1], value=b"x" * 1000))
    size.write(batch(1, [0], value=b"x" * 1000))
    assert kept(tmp_path / "bytes") == []
    size.write(batch(1, range(1, 9), value=b"x" * 1000))

    assert kept(tmp_path / "bytes", 1) == [(0, 9)], "the largest goes first"


@pytest.mark.parametrize("offsets", [[3, 4], [9, 8]])
def test_rows_that_come_out_of_order_are_refused(tmp_path: Path, offsets: list[int]) -> None:
    writer = writer_in(tmp_path)
    writer.write(batch(0, [5, 6]))
    with pytest.raises(DataError, match="not in offset order"):
        writer.write(batch(0, offsets))


def test_what_it_must_be_given() -> None:
    config = ArchiveSinkConfig(path="kept")

    def problems(schema: Schema) -> list[str]:
        return config.check(SinkContext("j", "kept", 0, 1, schema))

    assert problems(SINK_SCHEMA) == []
    (missing,) = problems(Schema(tuple(field for field in SINK_SCHEMA if field.name != "key")))
    assert missing.startswith("an archive needs column key: ")
    assert "headrace archive TOPIC --print" in missing
    (more,) = problems(Schema((*SINK_SCHEMA, Field("n", Primitive.INT64))))
    assert "without n" in more
    text = Schema(
        tuple(replace(field, type=Primitive.STRING) if field.name == "value" else field for field in SINK_SCHEMA)
    )
    (wrong,) = problems(text)
    assert wrong.startswith("column value is string, not binary: ")


def test_where_the_archive_ends_needs_an_archive() -> None:
    with pytest.raises(ValueError, match="name the archive with archive:"):
        KafkaSourceConfig.model_validate({"brokers": "b:1", "topic": "t", "start": "archived"})


def test_tombstones_need_a_column_that_may_be_null() -> None:
    assert RawFormat(tombstones="keep").check_source(Schema((SINK_SCHEMA.field("value"),))) == []
    assert RawFormat(tombstones="keep").check_source(Schema((SINK_SCHEMA.field("topic"),)))
