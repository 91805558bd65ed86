"""The configuration of a driver's machine, and the names of its savepoints. Pure. `bounded` alone distinguishes a
replay from following.

A savepoint's name contains the attempt's number, so that a later attempt recognises the files of earlier ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.paths import savepoint_url


def new_savepoint(directory: str, job: str, epoch: int, attempt: int, unique: str) -> str:
    """Returns the URL of the folder for an attempt's savepoint. unique: hex digits that no other driver has."""
    return savepoint_url(directory, job, epoch, f"{attempt}x{unique}")


def savepoint_attempt(job: str, path: str) -> int | None:
    """Returns the attempt that wrote a file, from its path in the folder of savepoints; None: another job or no driver
    wrote it.
    """
    found = re.match(rf"savepoint-{re.escape(job)}-\d+-(\d+)x[0-9a-f]+/", path)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """One job, and the options of its driver.

    job, storage     its id, and the URL of its folder
    parallelism      for the record of an attempt, as is plan_hash
    unique           hex digits that no other driver has, for names
    bounded          one epoch over all input, with splits that every attempt resolves again (replay); otherwise
                     increments, with splits that are resolved once for the job's life (follow)
    begin            located manifest of the job's origin; begin_url: its URL, for the record of an attempt
    publish          result rows are published to the sinks; False: they stay staged
    savepoint        folder for a savepoint at the end; final: windows are closed before it
    open_end         the end of the input closes no window, even without a savepoint
    retained         number of committed checkpoints that are kept
    increments_max   number of increments after which the driver ends; None: no limit
    failures_max     number of consecutive transient failures that are retried
    """

    job: str
    storage: str
    parallelism: int
    plan_hash: str
    unique: str
    bounded: bool
    begin: Manifest | None = None
    begin_url: str | None = None
    publish: bool = True
    savepoint: str | None = None
    final: bool = False
    open_end: bool = False
    retained: int = 1
    increments_max: int | None = None
    failures_max: int = 0

    @property
    def hands_over(self) -> bool:
        """Whether the end of the input closes no window, because another job continues from there."""
        return self.open_end or (self.savepoint is not None and not self.final)

    def new_savepoint(self, epoch: int, attempt: int) -> str | None:
        """Returns the URL of the folder for an attempt's savepoint; None: none was requested."""
        if self.savepoint is None:
            return None
        return new_savepoint(self.savepoint, self.job, epoch, attempt, self.unique)
