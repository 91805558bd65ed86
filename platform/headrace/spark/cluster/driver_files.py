"""Files between a driver on the cluster and the submitting host.

write_conf_folder   on the submitting host: writes Spark's configuration folder, with the user's own configuration.
                    spark-submit puts the folder's text files into a config map, so a pipeline and its modules need
                    no storage that both sides reach
unpack_files        in the driver
DriverEnd           the driver's exit code and output: one object in checkpoint storage, which the driver writes and
                    the submitting command reads
end_told, last_word copy the output of a command on the cluster into it, and for Kubernetes into the pod's termination
                    message
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import sys
import traceback
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from headrace.checkpoint.paths import joined, parted
from headrace.checkpoint.stores.opening import open_folder
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import HeadraceError, UserError

CONF_THERE = "/opt/spark/conf"
"""Spark's mount point of the folder, in every image."""
_BUNDLE = "headrace-driver-files"
_BYTES_MAX = 700_000
"""Limit of the encoded files: a config map holds 1 MiB, for the whole folder."""


def write_conf_folder(folder: Path, own: Path | None, files: Mapping[str, bytes], application: Path) -> None:
    """Writes the configuration folder of a driver pod: the content of the user's `own` folder, the application, and
    files (path -> content) for the driver's working folder. Raises UserError if it is too large.
    """
    folder.mkdir()
    for path in own.iterdir() if own is not None else ():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in files.items():
            archive.writestr(name, each)
    # as text: spark-submit sends only text files of that folder
    text = base64.encodebytes(content.getvalue())
    if len(text) > _BYTES_MAX:
        raise UserError(
            f"the pipeline and the modules beside it are {len(text):,} bytes, packed: too much for a driver pod",
            remedy="put the modules into the image, or give them by --py-files and spark.kubernetes.file.upload.path",
        )
    (folder / _BUNDLE).write_bytes(text)
    shutil.copyfile(application, folder / application.name)


def unpack_files() -> Path | None:
    """In a driver: writes the files into its working folder. Returns that folder, or None if the pod has no files."""
    bundle = Path(os.environ.get("SPARK_CONF_DIR", CONF_THERE)) / _BUNDLE
    if not bundle.is_file():
        return None
    folder = Path.cwd()
    with zipfile.ZipFile(io.BytesIO(base64.decodebytes(bundle.read_bytes()))) as archive:
        archive.extractall(folder)
    return folder


TAIL_CHARACTERS = 200_000
"""Characters of the output that are kept, from its end."""


@dataclass(frozen=True, slots=True)
class DriverEnd:
    """Its exit code and its output."""

    code: int
    out: str = ""
    err: str = ""

    def keep(self, url: str) -> None:
        """Writes the object. Blocking. Raises HeadraceError."""
        folder, name = parted(url)
        kept = asdict(self) | {"out": self.out[-TAIL_CHARACTERS:], "err": self.err[-TAIL_CHARACTERS:]}
        open_folder(folder).write(name, json.dumps(kept).encode())

    @staticmethod
    def take(url: str) -> DriverEnd | None:
        """Reads and deletes the object. Returns None if there is none, or if it cannot be reached from here.
        Blocking.
        """
        folder, name = parted(url)
        try:
            store = open_folder(folder)
            end = DriverEnd(**json.loads(store.read(name)))
            store.delete([name])
        except (ObjectNotFoundError, HeadraceError, OSError, ValueError, TypeError):
            return None
        return end


def end_url(storage: str) -> str:
    """Returns a unique URL for the end of a driver that is about to start."""
    return joined(storage, f"driver-{unique_part()}.json")


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
