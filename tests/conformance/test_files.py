from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from headrace.connect.sink import SinkContext
from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkConformance, SinkUnderTest
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from headrace_connectors.files import FilesSinkConfig, FilesSourceConfig

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


class FilesSink(SinkConformance):
    format_name = ""

    @pytest.fixture
    def sink(self, tmp_path: Path) -> SinkUnderTest:
        folder = tmp_path / "out"
        blocked = tmp_path / "file"
        blocked.write_text("in the way")
        return SinkUnderTest(
            FilesSinkConfig(path=str(folder)),
            SinkContext("j", "n", 0, 1, SCHEMA, format=self.format_name),
            visible=lambda: self.read(folder),
            broken=FilesSinkConfig(path=str(blocked / "below")),
        )

    def read(self, folder: Path) -> Rows:
        files = sorted(folder.glob("*"), key=lambda path: [int(part) for part in path.stem.split("-")[2:]])
        assert all(path.name.startswith("part-j-") for path in files if not path.name.startswith("."))
        return [row for path in files if not path.name.startswith(".") for row in self.read_file(path)]

    def read_file(self, path: Path) -> Rows:
        raise NotImplementedError


class TestJsonSink(FilesSink):
    format_name = "json"

    def read_file(self, path: Path) -> Rows:
        return [json.loads(line) for line in path.read_text().splitlines()]


class TestParquetSink(FilesSink):
    format_name = "parquet"

    def read_file(self, path: Path) -> Rows:
        return pl.read_parquet(path).to_dicts()
