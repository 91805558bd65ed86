"""Where a worker's files lie, that no other worker uses them, and that nothing of an earlier one is left."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from headrace.core.errors import ExternalError, UserError
from headrace.core.files.private_files import make_private_folder
from headrace.worker.supervision.slot_process import SlotPlaces

LOCK = "lock"
"""In a worker's folder: the file that is locked while it is held; empty until it was locked once."""


class WorkerFolder:
    """A worker's folder while it is held. Raises UserError when another worker holds it.

    Unix sockets lie outside of it, for their paths are short: in a folder of this user under the system's temporary
    one, with a name that follows from this folder's. So a worker that was killed leaves nothing that the next one does
    not remove.
    """

    def __init__(self, folder: Path, logs: Path | None = None) -> None:
        """logs: where slots log, if not in it."""
        folder = folder.absolute()
        self._folder = folder
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
        sockets = Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}-{name}"
        self.places = SlotPlaces(sockets, logs or folder / "logs", folder / "scratch")
        try:
            make_private_folder(folder)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            self._take()
            self._clear()
            sockets.mkdir(0o700)
        except OSError as error:
            raise ExternalError(f"the worker's folder {folder} cannot be used: {error}") from error

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            remedy = "give this one another id"
            raise UserError(f"a worker runs in {self._folder} already", remedy=remedy) from error
        os.pwrite(self._lock, b"held\n", 0)

    def release(self) -> None:
        """Removes what no one needs after the worker; logs stay."""
        self._clear()
        os.close(self._lock)

    def _clear(self) -> None:
        for path in (self.places.sockets, self.places.scratch):
            shutil.rmtree(path, ignore_errors=True)
