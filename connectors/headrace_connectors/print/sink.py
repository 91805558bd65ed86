"""The print sink: one line a row on standard output, for looking at a pipeline."""

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
from headrace.core.errors import ExternalError

if TYPE_CHECKING:
    import pyarrow as pa


class PrintWriter:
    """Prints rows; with deletes among them, `+ ` or `- ` stands before each row."""

    def write(self, batch: SinkBatch) -> None:
        """Prints the rows, in one piece."""
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
        """What was printed is out already."""
        with _told():
            sys.stdout.flush()
        return ()

    def close(self) -> None:
        """Standard output stays open."""


@contextmanager
def _told() -> Iterator[None]:
    """A standard output that takes no more is somebody else's failure; a reader that left is the command's to see."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode):
            return  # the terminal is gone: nobody reads, and the command ends by SIGHUP
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
        # what is no text is shown with replacement characters rather than stopping a look at it
        return pl.Series([value.decode("utf-8", "replace") for value in series.to_list()], dtype=pl.String)
    return series
