from __future__ import annotations

import errno
import io
import os
import sys

import polars as pl
import pyarrow as pa
import pytest

from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP, TS
from headrace.core.errors import ExternalError, UserError
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


class _Broken(io.StringIO):
    """A standard output that fails when it is flushed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def flush(self) -> None:
        raise OSError(self._number, os.strerror(self._number))


def test_a_full_disk_and_a_reader_that_left_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = PrintSinkConfig().open_writer(CONTEXT)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", _Broken(errno.ENOSPC))
        with pytest.raises(ExternalError, match="standard output cannot be written: No space left") as caught:
            writer.write(SinkBatch(ROWS))
        with pytest.raises(ExternalError):
            writer.flush(1)
        assert caught.value.remedy
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", _Broken(errno.EPIPE))
        with pytest.raises(UserError, match="nobody reads standard output"):
            writer.write(SinkBatch(ROWS))
