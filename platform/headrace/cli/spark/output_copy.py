"""Copies the output of a command on the cluster: for the process that submitted it, and for Kubernetes as the pod's
termination message."""

from __future__ import annotations

import io
import sys
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

from headrace.core.errors import HeadraceError
from headrace.spark.cluster.driver_files import DriverEnd

_PARTS_MAX = 5_000
BYTES_MAX = 4096
"""Kubernetes keeps no more."""
_PLACE = Path("/dev/termination-log")


class Overheard(io.TextIOBase):
    """A stream that passes its text on, and keeps the end of it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._parts: deque[str] = deque(maxlen=_PARTS_MAX)

    def write(self, text: str) -> int:
        """Passes text on."""
        written = self._stream.write(text)  # raises for bytes: some callers test a stream that way
        self._parts.append(text)
        return written

    def flush(self) -> None:
        """Flushes the stream below."""
        self._stream.flush()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return self._stream.encoding

    def text(self) -> str:
        """Returns the kept text."""
        return "".join(self._parts)


@contextmanager
def end_told(url: str) -> Iterator[None]:
    """Around a command that ends with SystemExit: writes its end to `url`, too."""
    out, err = Overheard(sys.stdout), Overheard(sys.stderr)
    code = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    except BaseException:
        code = 1
        err.write(traceback.format_exc())
        raise
    finally:
        _keep(DriverEnd(code, out.text(), err.text()), url)


def _keep(end: DriverEnd, url: str) -> None:
    """Writes the end; the command's result does not depend on it."""
    try:
        end.keep(url)
    except (HeadraceError, OSError) as error:
        sys.stderr.write(f"the end is not told at {url}: {error}\n")


@contextmanager
def last_word() -> Iterator[None]:
    """Around a command: its result, else its error, becomes the pod's termination message, too. Does nothing outside a
    pod.
    """
    if not _PLACE.exists():
        yield
        return
    out, err = Overheard(sys.stdout), Overheard(sys.stderr)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        said = out.text() or err.text().rpartition("error: ")[2]
        _PLACE.write_bytes(said.encode()[-BYTES_MAX:])
