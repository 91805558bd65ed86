from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from headrace.connect.sink import SinkContext
from headrace.connect.source import SourceContext, Split
from headrace.core.errors import ExternalError, UserError
from headrace.core.types import schema_of
from headrace.testing.committer_conformance import CommitterConformance
from headrace.testing.sink_conformance import SCHEMA, SinkConformance, SinkUnderTest
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest, read_to_end
from headrace_connectors.files import FilesSinkConfig, FilesSourceConfig
from support.storage.part_files import read_parts

COLUMNS = schema_of({"id": "int64", "name": "string"})


class TestJsonLines(SourceConformance):
    @pytest.fixture
    def source(self, tmp_path: Path) -> SourceUnderTest:
        for file in range(5):
            lines = [json.dumps({"id": file * 100 + line}) + "\n" for line in range(4 + 3 * file)]
            # a blank line is no record
            (tmp_path / f"part{file}.json").write_text("".join(lines[:2]) + "\n" + "".join(lines[2:]))
        config = FilesSourceConfig(path=str(tmp_path / "*.json"), partitions=2)
        return SourceUnderTest(config, SourceContext("p", "n", COLUMNS, "json"), splits=2, rows=50)


class TestParquet(SourceConformance):
    @pytest.fixture
    def source(self, tmp_path: Path) -> SourceUnderTest:
        for file in range(3):
            frame = pl.DataFrame({"id": range(file * 100, file * 100 + 25), "name": ["x"] * 25})
            frame.write_parquet(tmp_path / f"part{file}.parquet", row_group_size=10)
        config = FilesSourceConfig(path=str(tmp_path / "*.parquet"), partitions=2)
        return SourceUnderTest(config, SourceContext("p", "n", COLUMNS, "parquet"), splits=2, rows=75)


def write_numbered(folder: Path, name: str, first: int) -> None:
    (folder / name).write_text("".join(json.dumps({"id": first + line}) + "\n" for line in range(3)))


def read_ids(source: SourceUnderTest, splits: list[Split]) -> list[int]:
    reader = source.config.open_reader(source.context)
    try:
        reader.assign(splits)
        received = read_to_end(reader, splits)
    finally:
        reader.close()
    return sorted(json.loads(row)["id"] for rows in received.rows.values() for row in rows)


class TestLaterFiles:
    @pytest.fixture
    def source(self, tmp_path: Path) -> SourceUnderTest:
        write_numbered(tmp_path, "b.json", 0)
        write_numbered(tmp_path, "d.json", 10)
        config = FilesSourceConfig(path=str(tmp_path / "*.json"), partitions=2)
        return SourceUnderTest(config, SourceContext("p", "n", COLUMNS, "json"), splits=2, rows=6)

    def test_they_move_none_of_those_that_the_job_began_with(self, source: SourceUnderTest, tmp_path: Path) -> None:
        first = source.discover()
        write_numbered(tmp_path, "a.json", 20)
        assert source.discover_from(first, foreign=False) == first
        assert read_ids(source, first) == [0, 1, 2, 10, 11, 12]
        assert source.config.describe_position(first[0].id, 1) == f"{tmp_path / 'b.json'} line 2"

    def test_a_job_that_goes_on_from_a_savepoint_reads_them_after_the_others(
        self, source: SourceUnderTest, tmp_path: Path
    ) -> None:
        first = source.discover()
        for name, number in (("a.json", 20), ("c.json", 30), ("e.json", 40)):
            write_numbered(tmp_path, name, number)
        found = source.discover_from(first, foreign=True)
        assert [[Path(file).name for file in split.detail] for split in found] == [
            ["b.json", "a.json", "e.json"],
            ["d.json", "c.json"],
        ]
        behind = [split.starting_at(before.stop or 0) for split, before in zip(found, first, strict=True)]
        assert read_ids(source, behind) == [20, 21, 22, 30, 31, 32, 40, 41, 42]

    def test_files_that_were_read_may_go_and_others_may_not(self, source: SourceUnderTest, tmp_path: Path) -> None:
        first = source.discover()
        (tmp_path / "b.json").unlink()
        read = [first[0].starting_at(first[0].stop or 0), first[1]]
        assert read_ids(source, read) == [10, 11, 12]
        with pytest.raises(ExternalError, match=r"b\.json is gone"):
            read_ids(source, first)

    def test_fewer_partitions_than_a_savepoint_has_are_refused(self, source: SourceUnderTest) -> None:
        fewer = replace(source, config=source.config.model_copy(update={"partitions": 1}))
        with pytest.raises(UserError, match=r"positions of n\[1\]"):
            fewer.discover_from(source.discover(), foreign=True)


class FilesSink(SinkConformance):
    format_name = ""
    delivery: Literal["at-least-once", "exactly-once"] = "at-least-once"

    @pytest.fixture
    def sink(self, tmp_path: Path) -> SinkUnderTest:
        folder = tmp_path / "out"
        blocked = tmp_path / "file"
        blocked.write_text("in the way")
        return SinkUnderTest(
            FilesSinkConfig(path=str(folder), delivery=self.delivery),
            SinkContext("j", "n", 0, 1, SCHEMA, format=self.format_name),
            visible=lambda: read_parts(folder),
            broken=FilesSinkConfig(path=str(blocked / "below"), delivery=self.delivery),
        )


class JsonFiles(FilesSink):
    format_name = "json"


class ParquetFiles(FilesSink):
    format_name = "parquet"


class TestJsonSink(JsonFiles):
    pass


class TestParquetSink(ParquetFiles):
    pass


class TestJsonSinkExactlyOnce(JsonFiles, CommitterConformance):
    delivery = "exactly-once"


class TestParquetSinkExactlyOnce(ParquetFiles, CommitterConformance):
    delivery = "exactly-once"
