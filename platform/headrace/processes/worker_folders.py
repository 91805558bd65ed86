"""The folders of a worker's temporary files, for the worker and for the process that cleans up after a killed one."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path


def sockets_folder(folder: Path) -> Path:
    """The folder for Unix sockets of the worker in `folder`: outside of it, because the length of their paths is
    limited, in a folder of this user below the system's temporary folder."""
    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}-{name}"


def scratch_folder(folder: Path) -> Path:
    """The folder for temporary files of the slots of the worker in `folder`."""
    return folder / "scratch"


def clear(folder: Path) -> None:
    """Removes sockets and temporary files of the worker in `folder`, which does not run."""
    for path in (sockets_folder(folder), scratch_folder(folder)):
        shutil.rmtree(path, ignore_errors=True)
