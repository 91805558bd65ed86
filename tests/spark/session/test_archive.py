"""Archives of topics are plain Parquet to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.schema import SCHEMA
from headrace_connectors.archive.writer import FileBuilder, Origin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_reads_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    folder = ArchiveFolder(str(tmp_path))
    for partition in (0, 1):
        builder = FileBuilder(Origin("t", partition, "j"), 0)
        columns = {
            "offset": [0, 2],
            "timestamp": [5, -1],
            "key": [None, b"k"],
            "value": [b"v", None],
            "headers": [[{"key": "h", "value": None}, {"key": "h", "value": b"1"}], []],
        }
        builder.add(pa.table(columns, schema=SCHEMA))
        built = builder.finish()
        folder.put("t", partition, built.file, built.data)

    rows = spark.read.parquet(f"{tmp_path}/t/*").orderBy("offset").collect()

    assert [(row.offset, row.timestamp) for row in rows] == [(0, 5), (0, 5), (2, -1), (2, -1)]
    assert (rows[0].key, rows[0].value, rows[-1].key, rows[-1].value) == (None, b"v", b"k", None)
    assert [(header.key, header.value) for header in rows[0].headers] == [("h", None), ("h", b"1")]
    assert rows[-1].headers == []
