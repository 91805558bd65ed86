from __future__ import annotations

import errno
import io
import json
import os
import select
import subprocess
import sys
from collections import Counter

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP, TS
from headrace.core.errors import ExternalError, UserError
from headrace.core.types import schema_of
from headrace_connectors.print import PrintSinkConfig
from headrace_connectors.print.sink import _pieces
from support.processes.running import wait_until

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


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=3000), min_size=1))
def test_pieces_are_whole_lines_that_a_pipe_takes_at_once(lines: list[str]) -> None:
    data = ("\n".join(lines) + "\n").encode()
    pieces = [bytes(piece) for piece in _pieces(data)]

    assert b"".join(pieces) == data
    for piece in pieces:
        assert piece.endswith(b"\n")
        assert len(piece) <= select.PIPE_BUF or piece.count(b"\n") == 1


WRITER = """
import sys
import polars as pl
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.types import schema_of
from headrace_connectors.print import PrintSinkConfig

name, size = sys.argv[1], int(sys.argv[2])
context = SinkContext("j", "n", 0, 1, schema_of({"w": "string", "s": "string"}))
writer = PrintSinkConfig().open_writer(context)
texts = [name * (60 if row % 100 else size) for row in range(300)]
for _ in range(30):
    writer.write(SinkBatch(pl.DataFrame({"w": [name] * 300, "s": texts})))
"""


@pytest.mark.parametrize("size", [60, 20_000])
def test_lines_of_several_processes_are_not_torn(size: int) -> None:
    read, write = os.pipe()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name, str(size)], stdout=write) for name in "abc"]
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert all(set(row["s"]) == {row["w"]} for row in rows)
    assert Counter(row["w"] for row in rows) == {"a": 9000, "b": 9000, "c": 9000}


def test_a_writer_that_is_killed_leaves_no_part_of_a_line_and_no_lock() -> None:
    """Its lines fit into a pipe at once; it dies while the pipe is full."""
    read, write = os.pipe()
    killed = subprocess.Popen([sys.executable, "-c", WRITER, "k", "60"], stdout=write)
    wait_until(lambda: is_full(write), "the pipe is full")
    killed.kill()
    killed.wait()
    other = subprocess.Popen([sys.executable, "-c", WRITER, "a", "20000"], stdout=write)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert other.wait() == 0
    assert sum(row["w"] == "a" for row in rows) == 9000
    assert 0 < sum(row["w"] == "k" for row in rows) < 9000


def is_full(pipe: int) -> bool:
    """Whether a pipe takes no more bytes now."""
    return not select.select([], [pipe], [], 0)[1]
