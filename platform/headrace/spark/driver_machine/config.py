"""What a driver's machine is given. Shapes only: `bounded` is all that sets a replay and following apart."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.manifest import Manifest
from headrace.spark.driver_machine.names import new_savepoint


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """One job, and how it is run.

    job, storage     its id, and the URL of its folder
    parallelism      and plan_hash: for the record of an attempt
    unique           hex digits that no other driver has, for names
    bounded          one epoch over all input, whose splits every attempt resolves anew (replay); otherwise increments,
                     whose splits are resolved once for the job's life (follow)
    begin            located manifest that the job starts from, and begin_url: what names it in the attempt's record
    publish          result rows reach the sinks; False: they stay staged
    savepoint        folder for a savepoint at the end; final: windows are closed before it
    open_end         the end of the input closes no window, though no savepoint is asked for
    retained         committed checkpoints that are kept
    increments_max   ends after so many; None: goes on
    failures_max     failures in a row that pass by themselves and are tried again
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
        """Whether the end of the input closes no window, for somebody goes on from there."""
        return self.open_end or (self.savepoint is not None and not self.final)

    def new_savepoint(self, epoch: int, attempt: int) -> str | None:
        """URL of the folder for an attempt's savepoint; None: none is asked for."""
        if self.savepoint is None:
            return None
        return new_savepoint(self.savepoint, self.job, epoch, attempt, self.unique)
