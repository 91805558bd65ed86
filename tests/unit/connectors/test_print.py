from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP, TS
from headrace.core.types import schema_of
from headrace_connectors.print import PrintSinkConfig

CONTEXT = SinkContext("j", "n", 0, 1, schema_of({"a": "int64"}))
ROWS = pl.DataFrame({"a": [1, None], TS: [0, 0]})


def test_json_lines_without_a_format(capsys: pytest.CaptureFixture[str]) -> None:
    writer = PrintSinkConfig().open_writer(CONTEXT)
    writer.write(SinkBatch(ROWS))
    writer.flush(1)
    writer.close()
    assert capsys.readouterr().out == '{"a":1}\n{"a":null}\n'


def test_messages_of_a_format_and_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    writer = PrintSinkConfig().open_writer(CONTEXT)
    writer.write(SinkBatch(ROWS.with_columns(pl.Series(OP, [False, True])), pa.array(["x", "y"], pa.large_string())))
    writer.write(SinkBatch(ROWS, pa.array([b"\xff", b"ok"], pa.large_binary())))
    assert capsys.readouterr().out == "+ x\n- y\n\ufffd\nok\n"
