"""Local files of state: rows that the memory of a slot has no room for, mapped.

A file is an Arrow IPC file, uncompressed, so that its mapped columns are those of a frame without a copy. It has no
name: the system frees it with the last reference to its rows, also where the process is killed. It is a cache: nothing
is recovered from it, for the truth is the checkpoint.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import polars as pl
import pyarrow as pa

from headrace.core.errors import UserError
from headrace.core.polars_types import int128_columns, with_int128, without_int128
from headrace.state.place import Living

MAPPED_BYTES_MAX = 256 << 20
"""Bytes of mapped pages: fewer would be read from the system's cache again and again."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DONT_NEED = 4
"""MADV_DONTNEED of Linux: pages of a file are read again when they are touched."""


class LocalFiles:
    """Writes the rows of one slot's states to files of a folder. Used by any thread.

    UNUSABLE, FULL   what helps, by the settings of the engine
    """

    UNUSABLE = "set state.dir to a folder that the workers may write to, or state.backend: memory"
    FULL = "free space there, set state.dir to a larger disk, raise state.memory, or use a higher parallelism"

    def __init__(self, folder: Path, mapped_bytes_max: int = MAPPED_BYTES_MAX) -> None:
        """mapped_bytes_max: as of `limit_pages`.

        Raises UserError if the folder can neither be used nor be made: a job that needs it fails at once.
        """
        self._folder = folder
        self._mapped_bytes_max = mapped_bytes_max
        self._kept: Living[MappedRows] = Living()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise UserError(
                f"local files of state cannot be written to {folder}: {error.strerror or error}",
                remedy=self.UNUSABLE,
            ) from error

    def kept(self, frame: pl.DataFrame) -> MappedRows:
        """The same rows, in a file. Raises UserError if there is no space."""
        table = without_int128(frame).to_arrow(compat_level=pl.CompatLevel.newest())
        try:
            made = MappedRows(self._written(table), int128_columns(frame.schema))
        except OSError as error:
            raise self._unwritten(error, table.nbytes) from error
        self._kept.add(made)
        return made

    def release_pages(self) -> None:
        """Takes the pages of all files out of this process. They are read again, mostly from the system's cache, where
        rows are touched: so they never count for more than what was touched since the last call."""
        for each in self._kept.all():
            each.release_pages()

    def limit_pages(self) -> None:
        """Does so if more pages of files than `mapped_bytes_max` count for this process."""
        if self._kept and mapped_bytes() > self._mapped_bytes_max:
            self.release_pages()

    def _written(self, table: pa.Table) -> pa.Table:
        # the file has no name from the start: a slot that is killed here leaves none
        with tempfile.TemporaryFile(dir=self._folder) as file:
            name = f"/proc/self/fd/{file.fileno()}"
            with pa.ipc.new_file(name, table.schema) as writer:
                writer.write_table(table)
            # what is mapped stays mapped once the file is closed
            with pa.memory_map(name) as source:
                return pa.ipc.open_file(source).read_all()

    def _unwritten(self, error: OSError, size: int) -> UserError:
        free = "?"
        with suppress(OSError):
            free = f"{shutil.disk_usage(self._folder).free:,}"
        reason = "the disk is full" if error.errno in _FULL else error.strerror or str(error)
        return UserError(
            f"{size:,} bytes of state cannot be written to {self._folder} ({free} bytes are free): {reason}",
            remedy=self.FULL,
        )


class MappedRows:
    """Rows in a file. frame: their columns, without a copy; file_bytes: the size of its columns."""

    def __init__(self, table: pa.Table, wide: list[str]) -> None:
        self.file_bytes: int = table.nbytes
        self._spans = [span for column in table.columns for chunk in column.chunks for span in _pages(chunk)]
        made = pl.from_arrow(table, rechunk=False)
        assert isinstance(made, pl.DataFrame), "tables become frames"
        self.frame = with_int128(made, wide)

    def release_pages(self) -> None:
        """Takes its pages out of this process."""
        for address, size in self._spans:
            _C.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _DONT_NEED)


def mapped_bytes() -> int:
    """Bytes of pages of files, of its programs, too, that count for this process; 0 on a system without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE
    except OSError:
        return 0


_C = ctypes.CDLL(None, use_errno=True)


def _pages(array: pa.Array) -> list[tuple[int, int]]:
    """(address, size) of the whole pages of each buffer."""
    spans: list[tuple[int, int]] = []
    for buffer in array.buffers():
        if buffer is not None:
            begin = -(-buffer.address // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (buffer.address + buffer.size) // mmap.PAGESIZE * mmap.PAGESIZE
            if begin < end:
                spans.append((begin, end - begin))
    return spans
