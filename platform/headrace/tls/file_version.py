"""Notices that the TLS files of a process have been replaced, as those of a mounted Secret are."""

from __future__ import annotations

from headrace.tls.files import TlsFiles


class FileVersion:
    """The version of files that a process has read. Not thread-safe: two threads may both see one change."""

    def __init__(self, files: TlsFiles) -> None:
        self._paths = (files.cert, files.key, files.ca)
        self._read = self._now()

    def has_changed(self) -> bool:
        """Whether they have been replaced since the last call. Files that are gone have not been replaced yet."""
        now = self._now()
        if now is None or now == self._read:
            return False
        self._read = now
        return True

    def _now(self) -> tuple[tuple[int, int], ...] | None:
        try:
            found = [path.stat() for path in self._paths]
        except OSError:
            return None
        return tuple((each.st_ino, each.st_mtime_ns) for each in found)
