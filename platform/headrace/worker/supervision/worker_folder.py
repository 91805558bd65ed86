"""The folder of a worker: locked against other workers, and cleared of what a killed worker left."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from headrace.core.errors import ExternalError, UserError
from headrace.core.files.home_files import make_private_folder
from headrace.processes.worker_folders import clear, scratch_folder, sockets_folder
from headrace.worker.supervision.slot_process import SlotFolders

LOCK = "lock"
"""The file in a worker's folder that is locked (flock) while the worker runs; empty until the first lock."""


class WorkerFolder:
    """A locked worker folder. Raises UserError if another worker has locked it, ExternalError if it cannot be used.

    Unix sockets are outside of it (`processes.worker_folders`). Their place is derived from the path of this folder, so
    the next worker finds and removes what a killed one left.
    """

    def __init__(self, folder: Path, logs: Path | None = None) -> None:
        """logs: folder for logs of slots; None: `<folder>/logs`."""
        folder = folder.absolute()
        self._folder = folder
        sockets = sockets_folder(folder)
        self.folders = SlotFolders(sockets, logs or folder / "logs", scratch_folder(folder))
        try:
            make_private_folder(folder)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            self._take()
            clear(folder)
            _make_sockets(sockets)
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
        """Removes sockets and temporary files, and unlocks the folder. Logs stay."""
        clear(self._folder)
        os.close(self._lock)


def _make_sockets(folder: Path) -> None:
    """Makes the folder for sockets. Its name can be computed, so another user of this host may have made it first; a
    folder that is not this user's is never used."""
    try:
        folder.mkdir(0o700)
    except FileExistsError as error:
        raise ExternalError(
            f"{folder}, for the worker's sockets, belongs to another user of this host",
            remedy="let TMPDIR name a folder of your own, or have that one removed",
        ) from error
