"""Locations of files on this host: `HEADRACE_HOME`, and the folders under it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

WHERE_A_TOKEN_LIES = "The token is in $HEADRACE_HOME/cluster/token of the coordinator, or in its --token-file"


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that commands on one host share; two homes share nothing."""

    root: Path

    @staticmethod
    def from_environment() -> Home:
        """`$HEADRACE_HOME`, else `~/.headrace`."""
        return Home(Path(os.environ.get("HEADRACE_HOME") or Path.home() / ".headrace").expanduser().absolute())

    @property
    def broker(self) -> Path:
        """Data, log and pid file of the embedded broker."""
        return self.root / "kafka"

    @property
    def jobs(self) -> Path:
        """One folder per job."""
        return self.root / "jobs"


def cache_folder() -> Path:
    """The user's cache for files that can be downloaded again (broker jars): `$XDG_CACHE_HOME/headrace`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
