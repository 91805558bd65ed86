"""The print sink: one line per row on standard output, for inspecting a pipeline."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from headrace.connect.sink import Committable, SinkBatch
from headrace.core.batch import OP, visible_columns
from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    import pyarrow as pa


class PrintWriter:
    """Prints rows; if there are deletes, each row is prefixed with `+ ` or `- `."""

    def write(self, batch: SinkBatch) -> None:
        """Prints the rows in one write."""
        if not len(batch):
            return
        lines = _lines(batch)
        if OP in batch.rows.columns:
            deleted = batch.rows.get_column(OP).fill_null(value=False)
            marks = pl.select(pl.when(deleted).then(pl.lit("- ")).otherwise(pl.lit("+ "))).to_series()
            lines = marks + lines
        with _told():
            sys.stdout.write("\n".join(lines.to_list()) + "\n")
            sys.stdout.flush()

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Flushes standard output."""
        with _told():
            sys.stdout.flush()
        return ()

    def close(self) -> None:
        """Does nothing: standard output stays open."""


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
