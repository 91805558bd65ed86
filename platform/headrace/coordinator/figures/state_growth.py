"""How fast the states of an attempt grow, from the reports of its slots. Pure; no decision about the job reads it.

What a state holds goes up and down: rows of one key are merged later, windows close. So growth is the difference of the
least sizes in two spans of time of equal length, which for steady growth is its rate, and for a steady size is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.slot_series import StateKey

HOUR_MS = 3_600_000
SAMPLES_MAX = 60
"""Most samples of an attempt. Beyond, a sample covers twice the time, up to a minute; then the oldest are dropped."""
SAMPLE_MS_MAX = 60_000
BEGIN_MS = 5_000
"""Sizes are sampled after this time, when all slots have reported."""
KNOWN_MS = 60_000
"""The growth is known after this time."""
STEADY_MS = 600_000
"""Growth that lasts is known after this time."""
SLOWING = 2
"""A state whose last third grows by less than this part of its first one fills up, and does not keep growing."""


@dataclass(slots=True)
class _Sample:
    """The least size of each state since `at_ms`, by the slots' clocks."""

    at_ms: int
    least: dict[StateKey, int]

    def add(self, sizes: Mapping[StateKey, int]) -> None:
        # a state that is not in both was empty for a while
        self.least = {key: min(self.least.get(key, 0), sizes.get(key, 0)) for key in self.least.keys() | sizes.keys()}


class StateGrowth:
    """The growth of each state of one attempt."""

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._sample_ms = 1_000
        self._now_ms = 0

    def look(self, figures: JobFigures) -> None:
        """Takes the newest reports."""
        now_ms = figures.running_ms
        if now_ms < BEGIN_MS or now_ms <= self._now_ms:
            return
        self._now_ms = now_ms
        sizes = {key: each.memory_bytes + each.disk_bytes for key, each in figures.states().items()}
        if self._samples and now_ms < self._samples[-1].at_ms + self._sample_ms:
            self._samples[-1].add(sizes)
            return
        self._samples.append(_Sample(now_ms, sizes))
        if len(self._samples) > SAMPLES_MAX:
            self._thin()

    def _thin(self) -> None:
        if self._sample_ms >= SAMPLE_MS_MAX:
            del self._samples[0]
            return
        self._sample_ms *= 2
        for first, second in zip(self._samples[::2], self._samples[1::2], strict=False):
            first.add(second.least)
        self._samples = self._samples[::2]

    def per_hour(self, key: StateKey) -> int | None:
        """Bytes by which a state grows in an hour, less than 0 where it shrinks; None: not known yet."""
        span_ms = self._now_ms - self._samples[0].at_ms if self._samples else 0
        if span_ms < KNOWN_MS:
            return None
        first, second = self._least(key, 2)
        return round((second - first) * HOUR_MS / (span_ms / 2))

    def lasts(self, key: StateKey) -> bool:
        """Whether a state has grown for all of `STEADY_MS` or longer, and does not fill up."""
        span_ms = self._now_ms - self._samples[0].at_ms if self._samples else 0
        if span_ms < STEADY_MS:
            return False
        steps = [after - before for before, after in pairwise(self._least(key, 3))]
        return min(steps) > 0 and steps[-1] * SLOWING >= steps[0]

    def _least(self, key: StateKey, parts: int) -> list[int]:
        """The least size in each of so many spans of equal length."""
        first_ms = self._samples[0].at_ms
        length_ms = (self._now_ms - first_ms + 1) / parts
        found: list[list[int]] = [[] for _ in range(parts)]
        for each in self._samples:
            found[int((each.at_ms - first_ms) / length_ms)].append(each.least.get(key, 0))
        return [min(sizes) for sizes in found]
