"""The cost of one run, and the rates of a contender from the slope between two runs.

The slope excludes the parts that both runs have: start, end, first checkpoints. The rate of the fresh run includes
them.
"""

from __future__ import annotations

from dataclasses import dataclass


class NoSlopeError(Exception):
    """The larger run did not cost more than the smaller one: the noise exceeds the difference."""


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
        """The rate by wall time. Raises NoSlopeError."""
        return self._slope(self.large.wall_s - self.small.wall_s)

    @property
    def fresh_rows_per_cpu_s(self) -> float:
        """The rate of the fresh run, including the start of all processes and their warm-up."""
        return self.fresh.rows / self.fresh.cpu_s

    def _slope(self, seconds: float) -> float:
        rows = self.large.rows - self.small.rows
        assert rows > 0, "the slope needs two sizes"
        if seconds <= 0:
            raise NoSlopeError(f"{self.large} took no longer than {self.small}: give the job more rows")
        return rows / seconds
