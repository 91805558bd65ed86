"""The configuration of a driver's machine. Shapes only. Only `bounded` distinguishes a replay from following."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.manifest import Manifest
from headrace.spark.driver_machine.names import new_savepoint


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """One job, and how it runs.

    job, storage     its id, and the URL of its folder
    parallelism      and plan_hash: for the record of an attempt
    unique           hex digits that no other driver has, for names
    bounded          one epoch over all input, with splits that every attempt resolves again (replay); otherwise
                     increments, with splits that are resolved once for the job's life (follow)
    begin            located manifest of the job's origin, and begin_url: its name in the attempt's record
    publish          result rows reach the sinks; False: they stay staged
    savepoint        folder for a savepoint at the end; final: windows are closed before it
    open_end         the end of the input closes no window, even without a savepoint
    retained         committed checkpoints that are kept
    increments_max   ends after this number; None: goes on
    failures_max     consecutive transient failures that are retried
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
