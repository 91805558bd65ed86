"""What one run cost, and the rates of a contender by the slope between two runs.

The slope leaves out what both runs have: start, end, first checkpoints. The rate of the fresh run has it all.
"""

from __future__ import annotations

from dataclasses import dataclass


class NoSlopeError(Exception):
    """The larger run was not the dearer one: noise is larger than what is measured."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Rows read, CPU seconds of the process tree, wall seconds."""

    rows: int
    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of a contender in one round: `small` and `large` in one state of warmth, `fresh` from the start."""

    small: Phase
    large: Phase
    fresh: Phase

    @property
    def steady_rows_per_cpu_s(self) -> float:
        """Raises NoSlopeError."""
        return self._slope(self.large.cpu_s - self.small.cpu_s)

    @property
    def steady_rows_per_s(self) -> float:
        """By the clock. Raises NoSlopeError."""
        return self._slope(self.large.wall_s - self.small.wall_s)

    @property
    def fresh_rows_per_cpu_s(self) -> float:
        """With the start of all processes, and whatever is slower at first."""
        return self.fresh.rows / self.fresh.cpu_s

    def _slope(self, seconds: float) -> float:
        rows = self.large.rows - self.small.rows
        assert rows > 0, "the slope needs two sizes"
        if seconds <= 0:
            raise NoSlopeError(f"{self.large} took no longer than {self.small}: give the job more rows")
        return rows / seconds
