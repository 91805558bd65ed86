"""Opens a file that may be compressed: gzip and zstd are unpacked, by the file's first bytes; others are named."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SUFFIXES = frozenset({".gz", ".zst", ".zstd"})
"""With which names of compressed files end that can be read."""
GZIP, ZSTD = "gzip", "zstd"
_HEAD_BYTES = 512
_TAR = re.compile(rb".{257}ustar", re.DOTALL)
_PACKED = (
    (re.compile(rb"\x1f\x8b"), GZIP),
    # a frame, or one that readers skip
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), ZSTD),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
    (re.compile(rb"\x04\x22\x4d\x18"), "lz4"),
    (re.compile(rb"\xff\x06\x00\x00sNaPpY"), "snappy"),
    (re.compile(rb"\x1f[\x9d\xa0]"), "compress (.Z)"),
    (re.compile(rb"PK(?:\x03\x04|\x05\x06)"), "zip"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "7z"),
    (_TAR, "tar"),
)


class _Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


def packing_of(path: Path) -> str | None:
    """How a file is compressed, or the kind of an archive; None: it is neither, or cannot be opened."""
    try:
        with path.open("rb") as file:
            return _packing(file, path)
    except OSError:
        return None


class UnpackedFile(io.RawIOBase):
    """The content of a file, unpacked while it is read.

    Raises UserError for a file that is packed otherwise or damaged, OSError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = False
        self._packed = path.open("rb")
        try:
            self._content = self._opened()
        except BaseException:
            self._packed.close()
            raise

    def _opened(self) -> _Bytes:
        match _packing(self._packed, self._path):
            case None:
                return self._packed
            case "gzip":
                return gzip.GzipFile(fileobj=self._packed)
            case "zstd":
                import pyarrow as pa

                content: _Bytes = pa.CompressedInputStream(self._packed, ZSTD)
                return content
            case other:
                raise self._refused(other)

    def _refused(self, packing: str) -> UserError:
        return UserError(f"{self._path} is packed with {packing}", remedy="unpack it, or pack it with gzip or zstd")

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most `size`; empty at the end."""
        assert size > 0, "a file is read in parts"
        try:
            content = self._content.read(size)
        except (EOFError, OSError, zlib.error) as cause:
            if self._content is self._packed:
                raise ExternalError(f"{self._path} cannot be read: {cause}") from cause
            raise UserError(f"{self._path} is damaged, or not complete: {cause}", remedy="copy it anew") from cause
        if not self._begun and _TAR.match(content):
            # an archive inside of gzip or zstd
            raise self._refused("tar")
        self._begun = True
        return content

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """As `read`, into a buffer."""
        with memoryview(buffer).cast("B") as view:
            content = self.read(len(view))
            view[: len(content)] = content
            return len(content)

    def close(self) -> None:
        """Closes the file. Idempotent."""
        if not self.closed:
            self._content.close()
            self._packed.close()
        super().close()


def _packing(file: io.BufferedReader, path: Path) -> str | None:
    # it need not be able to go back
    head = file.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    return next((name for mark, name in _PACKED if mark.match(head)), "brotli" if path.suffix == ".br" else None)
