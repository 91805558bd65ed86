"""The files sink: hidden temporary files that get their name, fsynced, when an epoch is flushed. Nothing that a reader
can see is ever incomplete, and no file is written over."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connect.format import Encoder
from headrace.connect.registry import format_named
from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.core.errors import DataError, ExternalError, UserError
from headrace_connectors.files.config import FilesSinkConfig

PARQUET = "parquet"
FILE_BYTES_MAX = 256 << 20
"""A file that has grown to this is closed, and the epoch goes on in another."""


def make_folder(path: str) -> Path:
    """The folder, made where there is none. Raises UserError where that is not possible."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise UserError(f"{path} cannot be a folder: {cause.strerror or cause}", remedy="correct `path:`") from cause
    return folder


class _OpenFile(Protocol):
    """A file that is being written under a temporary name."""

    def write(self, rows: pl.DataFrame) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class FilesWriter:
    """Writes the rows of one subtask."""

    def __init__(self, config: FilesSinkConfig, context: SinkContext) -> None:
        assert context.format is not None, "a files sink has a format"
        self._context = context
        self._folder = make_folder(config.path)
        self._encoder = None
        if context.format != PARQUET:
            options = format_named(context.format).config.model_validate(context.format_options)
            self._encoder = options.open_encoder(context.schema)
        self._current: _OpenFile | None = None
        self._written: list[Path] = []
        self._sweep()

    def _sweep(self) -> None:
        """Removes what writers of this job that were killed had begun. Before any writer of an attempt gets a row, all
        of them are open, so nothing of the living is touched; each takes its share, whatever the parallelism was."""
        context = self._context
        for path in self._folder.glob(f".{self._stem()}-*.tmp"):
            number = path.name.removeprefix(f".{self._stem()}-").partition("-")[0]
            if number.isdecimal() and int(number) % context.parallelism == context.subtask:
                path.unlink(missing_ok=True)

    def write(self, batch: SinkBatch) -> None:
        """Appends rows to the epoch's file."""
        if not len(batch):
            return
        try:
            if self._current is None:
                self._current = self._open()
            self._current.write(batch.rows.select(self._context.schema.names))
            if self._current.size() >= FILE_BYTES_MAX:
                self._close_current()
        except OSError as cause:
            raise self._failed(cause) from cause

    def _open(self) -> _OpenFile:
        path = self._folder / f".{self._stem()}-{self._context.subtask}-{uuid.uuid4().hex}.tmp"
        self._written.append(path)
        if self._encoder is None:
            return _ParquetFile(path, self._context.schema.empty().to_arrow().schema)
        return _LinesFile(path, self._encoder)

    def _stem(self) -> str:
        return f"part-{self._context.job}"

    def _close_current(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Puts everything on disk and gives it its name; an epoch without rows leaves nothing."""
        try:
            self._close_current()
            for path in self._written:
                _sync(path)
                self._publish(path, epoch)
            if self._written:
                _sync(self._folder)
        except OSError as cause:
            raise self._failed(cause) from cause
        self._written.clear()
        return ()

    def _publish(self, path: Path, epoch: int) -> None:
        """Links the file under the first free name: a rename would replace another run's file of that name."""
        number = 0
        while True:
            name = f"{self._stem()}-{epoch}-{self._context.subtask}-{number}.{self._context.format}"
            try:
                os.link(path, self._folder / name)
            except FileExistsError:
                number += 1
                continue
            path.unlink()
            return

    def _failed(self, cause: OSError) -> ExternalError:
        return ExternalError(
            f"sink {self._context.node!r} cannot write into {self._folder}: {cause.strerror or cause}",
            remedy="free space, or allow this user to write there",
        )

    def close(self) -> None:
        """Removes what was not flushed."""
        self._close_current()
        for path in self._written:
            path.unlink(missing_ok=True)
        self._written.clear()


class _LinesFile:
    """One message a line."""

    def __init__(self, path: Path, encoder: Encoder) -> None:
        self._encoder = encoder
        self._file: BinaryIO = path.open("xb")
        self._file.write(encoder.file_header())

    def write(self, rows: pl.DataFrame) -> None:
        messages = pl.from_arrow(self._encoder.encode(rows))
        assert isinstance(messages, pl.Series)
        lines = messages.cast(pl.Binary).to_list()
        text = b"\n".join(lines) + b"\n"
        if text.count(b"\n") != len(lines):
            raise DataError("a message has a line break, so it cannot be one line of a file", remedy="write it as json")
        self._file.write(text)

    def size(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class _ParquetFile:
    """Row groups of what came together."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = path.open("xb")
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    def write(self, rows: pl.DataFrame) -> None:
        self._writer.write_table(rows.to_arrow())

    def size(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._writer.close()
        self._file.close()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
