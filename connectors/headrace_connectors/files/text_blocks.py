"""Reads a text file, which may be compressed, in blocks of whole lines. Knows nothing of the lines' content."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import DataError
from headrace.core.files.unpacked_file import UnpackedFile

BLOCK_BYTES = 1 << 20
LINE_BYTES_MAX = 16 << 20
_BOM = b"\xef\xbb\xbf"


class TextBlocks:
    """An open text file. The last line may have no line end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = UnpackedFile(path)
        self._begun = False
        self._tail = b""

    def read(self, line: int) -> bytes:
        """The next lines, at least one, with LF behind each; empty at the end of the file. Line `line` is the first of
        them, counted from 0.

        Raises DataError for a line of more than 16 MiB.
        """
        while len(self._tail) <= LINE_BYTES_MAX:
            block = self._file.read(BLOCK_BYTES)
            text = self._tail + block
            if not self._begun and (len(text) >= len(_BOM) or not block):
                text, self._begun = text.removeprefix(_BOM), True
            if not block:
                self._tail = b""
                return text + b"\n" if text else b""
            end = text.rfind(b"\n") + 1
            self._tail = text[end:]
            if end:
                return text[:end]
        raise DataError(
            f"{self.path} line {line + 1} is longer than {LINE_BYTES_MAX >> 20} MiB",
            remedy="is it a text file with one record a line?",
        )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
