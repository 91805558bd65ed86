"""The print sink: one line per row on standard output, for inspecting a pipeline.

Several slots write to one pipe. A write of more than `select.PIPE_BUF` bytes is not atomic there, so lines are written
in pieces of at most that size: no line is torn by another writer, nor by the death of its own. A longer line is written
under a lock of the pipe.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from headrace.connect.sink import Committable, SinkBatch
from headrace.core.batch import OP, visible_columns
from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    import pyarrow as pa


_LOCK = threading.Lock()
"""Held with the lock of the pipe, which excludes processes, not threads."""


class PrintWriter:
    """Prints rows; if there are deletes, each row is prefixed with `+ ` or `- `."""

    def write(self, batch: SinkBatch) -> None:
        """Prints the rows, as whole lines."""
        if not len(batch):
            return
        lines = _lines(batch)
        if OP in batch.rows.columns:
            deleted = batch.rows.get_column(OP).fill_null(value=False)
            marks = pl.select(pl.when(deleted).then(pl.lit("- ")).otherwise(pl.lit("+ "))).to_series()
            lines = marks + lines
        with _told():
            _write("\n".join(lines.to_list()) + "\n")

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Flushes standard output."""
        with _told():
            sys.stdout.flush()
        return ()

    def close(self) -> None:
        """Does nothing: standard output stays open."""


def _write(text: str) -> None:
    """Writes lines and flushes them."""
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or not _is_pipe(out):
        out.write(text)
        out.flush()
        return
    data = text.encode(out.encoding, out.errors or "strict")
    with _LOCK, _locked(out.fileno()):
        for piece in _pieces(data):
            out.buffer.write(piece)
            out.buffer.flush()


def _is_pipe(out: io.TextIOWrapper) -> bool:
    try:
        mode = os.fstat(out.fileno()).st_mode
    except io.UnsupportedOperation:  # it is kept in memory, by a notebook or a test
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


@contextmanager
def _locked(pipe: int) -> Iterator[None]:
    """Excludes the other processes that write to this pipe. The kernel releases the lock of a process that ends.

    A record lock, not `flock`: forked slots share one open file, for which `flock` knows only one owner.
    """
    fcntl.lockf(pipe, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(pipe, fcntl.LOCK_UN)


def _pieces(data: bytes) -> Iterator[memoryview]:
    """Splits lines into pieces of whole lines, of at most `PIPE_BUF` bytes unless a single line is longer."""
    view, begin = memoryview(data), 0
    while begin < len(data):
        end = data.rfind(b"\n", begin, begin + select.PIPE_BUF) + 1 or data.index(b"\n", begin) + 1
        yield view[begin:end]
        begin = end


@contextmanager
def _told() -> Iterator[None]:
    """Translates errors of standard output to ExternalError; to UserError if its reader has left (`| head`), because
    such a job must end: an attempt that fails with any other error is followed by the next one."""
    try:
        yield
    except BrokenPipeError as error:
        raise UserError("nobody reads standard output any more") from error
    except OSError as error:
        if error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode):
            return  # the terminal is gone: there is no reader, and SIGHUP ends the command
        remedy = "make room where it goes to, or send it elsewhere"
        raise ExternalError(f"standard output cannot be written: {error.strerror}", remedy=remedy) from error


def _lines(batch: SinkBatch) -> pl.Series:
    if batch.messages is None:
        from headrace.formats.json.encode import encode_json_object

        rows = batch.rows
        return _text(encode_json_object(rows, visible_columns(rows)))
    return _text(batch.messages)


def _text(messages: pa.Array | pl.Series) -> pl.Series:
    series = messages if isinstance(messages, pl.Series) else pl.from_arrow(messages)
    assert isinstance(series, pl.Series)
    if series.dtype == pl.Binary:
        # invalid UTF-8 is shown with replacement characters, so that it does not stop the inspection
        return pl.Series([value.decode("utf-8", "replace") for value in series.to_list()], dtype=pl.String)
    return series
