"""Locations of files on this host: `HEADRACE_HOME`, and the folders under it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError

SLOTS_VARIABLE = "HEADRACE_WORKER_SLOTS"
"""In a slot's environment: the number of slots that share the memory of its container or host."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that commands on one host share; two homes share nothing."""

    root: Path

    @staticmethod
    def from_environment() -> Home:
        """`$HEADRACE_HOME`, else `~/.headrace`."""
        root = os.environ.get("HEADRACE_HOME") or _user_home("HEADRACE_HOME") / ".headrace"
        return Home(Path(root).expanduser().absolute())

    @property
    def broker(self) -> Path:
        """Data, log and pid file of the embedded broker."""
        return self.root / "kafka"

    @property
    def jobs(self) -> Path:
        """One folder per job."""
        return self.root / "jobs"

    @property
    def checkpoints(self) -> Path:
        """Checkpoint storage of jobs whose pipeline names none."""
        return self.root / "checkpoints"


def cache_folder() -> Path:
    """The user's cache for files that can be downloaded again (broker jars): `$XDG_CACHE_HOME/headrace`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or _user_home("XDG_CACHE_HOME") / ".cache") / "headrace"


def _user_home(instead: str) -> Path:
    """The home of the user of this process. instead: the variable that names the folder of a user without one."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise UserError(f"user {os.getuid()} of this process has no home", remedy=f"set {instead} or HOME") from error
