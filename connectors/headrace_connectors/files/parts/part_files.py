"""The open files of one epoch: hidden, one after another, each up to a size. Owns their content and its metadata; knows
nothing of syncing and publication."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connect.format import Encoder, FormatContext
from headrace.connect.registry import format_named
from headrace.connect.row_check import raise_refused
from headrace.connect.sink import SinkContext
from headrace_connectors.files.parts.part_names import WriterName, open_name
from headrace_connectors.files.row_check import LinesCheck

PARQUET = "parquet"
QUOTING = frozenset({"csv"})
"""Formats whose messages may have several lines in a file, because quotes hold them together."""
FILE_BYTES_MAX = 256 << 20
"""A file of this size is closed, and the epoch continues in another."""
CHECKSUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A closed file. `checksum`: BLAKE2b of its content in hex, or empty if not computed."""

    path: Path
    rows: int
    bytes: int
    checksum: str


class EpochFiles:
    """The files of one writer since the last barrier. Raises OSError if the file system fails."""

    def __init__(self, folder: Path, context: SinkContext, *, checked: bool) -> None:
        self._folder = folder
        self._context = context
        self._checked = checked
        self._encoder = encoder_of(context)
        self._current: _OpenFile | None = None
        self._rows = 0
        self._paths: list[Path] = []
        self._closed: list[WrittenFile] = []

    def write(self, rows: pl.DataFrame) -> None:
        """Appends at least one row."""
        if self._current is None:
            self._current = self._open()
        self._current.write(rows.select(self._context.schema.names))
        self._rows += rows.height
        if self._current.file.bytes >= FILE_BYTES_MAX:
            self._close_current()

    def _open(self) -> _OpenFile:
        path = self._folder / open_name(WriterName.of(self._context), uuid.uuid4().hex)
        self._paths.append(path)
        file = _NewFile(path, checked=self._checked)
        if self._encoder is None:
            return _ParquetFile(file, self._context.schema.empty().to_arrow().schema)
        check = None if self._context.format in QUOTING else LinesCheck(self._context, self._encoder)
        return _TextFile(file, self._encoder, check, self._context.node)

    def _close_current(self) -> None:
        if self._current is not None:
            current, self._current = self._current, None
            current.close()
            file = current.file
            self._closed.append(WrittenFile(file.path, self._rows, file.bytes, file.checksum))
            self._rows = 0

    def complete(self) -> list[WrittenFile]:
        """Closes the last file and returns all of them; this object owns them until `handed_over`."""
        self._close_current()
        return list(self._closed)

    def handed_over(self) -> None:
        """Releases the files to the caller; the next epoch begins."""
        self._paths.clear()
        self._closed.clear()

    def discard(self) -> None:
        """Removes files that were not handed over. Idempotent."""
        self._close_current()
        for path in self._paths:
            path.unlink(missing_ok=True)
        self.handed_over()


def encoder_of(context: SinkContext) -> Encoder | None:
    """The encoder from rows to lines; None for columnar files."""
    assert context.format is not None, "a files sink has a format"
    if context.format == PARQUET:
        return None
    options = format_named(context.format).config.model_validate(context.format_options)
    return options.open_encoder(context.schema, FormatContext(context.node, "sink", prepared=context.prepared))


class _NewFile:
    """A new file, written sequentially: implements the part of a binary file that Arrow needs."""

    def __init__(self, path: Path, *, checked: bool) -> None:
        self.path = path
        self.bytes = 0
        self._file = path.open("xb")
        self._hash = hashlib.blake2b(digest_size=CHECKSUM_BYTES) if checked else None

    def write(self, data: bytes) -> int:
        if self._hash is not None:
            self._hash.update(data)
        self.bytes += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._file.flush()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()

    @property
    def checksum(self) -> str:
        return "" if self._hash is None else self._hash.hexdigest()


class _OpenFile(Protocol):
    """A file in a format."""

    file: _NewFile

    def write(self, rows: pl.DataFrame) -> None: ...

    def close(self) -> None: ...


class _TextFile:
    """Messages with a line end behind each: one a line, or, without a check, as many as it has."""

    def __init__(self, file: _NewFile, encoder: Encoder, check: LinesCheck | None, node: str) -> None:
        self.file = file
        self._encoder = encoder
        self._check = check
        self._node = node
        file.write(encoder.file_header())

    def write(self, rows: pl.DataFrame) -> None:
        messages = pl.from_arrow(self._encoder.encode(rows))
        assert isinstance(messages, pl.Series)
        lines = messages.cast(pl.Binary).to_list()
        text = b"\n".join(lines) + b"\n"
        if self._check is not None and (text.count(b"\n") != len(lines) or b"\r\n" in text):
            raise_refused(self._node, rows, self._check.refused(rows))
        self.file.write(text)

    def close(self) -> None:
        self.file.close()


class _ParquetFile:
    """One row group per batch."""

    def __init__(self, file: _NewFile, schema: pa.Schema) -> None:
        self.file = file
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, rows: pl.DataFrame) -> None:
        self._writer.write_table(rows.to_arrow())

    def close(self) -> None:
        self._writer.close()
        self.file.close()
