"""Samples of the last 15 minutes for the plots, of every job of a cluster. Bounded in time, samples and jobs. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.client.figure_models import JobFigures
from headrace.client.models import FINAL_STATES

KEPT_MS = 15 * 60 * 1000
SAMPLES_MAX = 450
"""Most samples of one job: one every two seconds."""
JOBS_MAX = 200
"""Most jobs with samples: the newest ones."""
SHOWN_MAX = 180
"""Most points of a line: a plot has about three pixels for each."""

_DELAY_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))

Points = list[tuple[int, float]]
"""(epoch ms, value)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of a job at one time. None: not known. lags: `topic-partition` -> messages."""

    at_ms: int
    rows_in_per_s: float
    rows_out_per_s: float
    busy: float
    backpressured: float
    watermark_delay_s: float | None
    lags: Mapping[str, int]


class JobSamples:
    """The samples of one job, oldest first."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def add(self, sample: Sample) -> None:
        """Adds a sample. One that is not newer than the last one is left out: the clock was set back."""
        if self._samples and sample.at_ms <= self._samples[-1].at_ms:
            return
        self._samples.append(sample)
        while self._samples[0].at_ms < sample.at_ms - KEPT_MS:
            self._samples.popleft()

    def __len__(self) -> int:
        return len(self._samples)

    def rates(self) -> dict[str, Points]:
        """Rows a second of sources and sinks."""
        shown = self._thinned()
        return {
            "in": [(each.at_ms, round(each.rows_in_per_s, 1)) for each in shown],
            "out": [(each.at_ms, round(each.rows_out_per_s, 1)) for each in shown],
        }

    def load(self) -> dict[str, Points]:
        """Busy and backpressured time of the busiest subtask, in percent."""
        shown = self._thinned()
        return {
            "busy": [(each.at_ms, round(100 * each.busy, 1)) for each in shown],
            "backpressured": [(each.at_ms, round(100 * each.backpressured, 1)) for each in shown],
        }

    def delay(self) -> dict[str, Points]:
        """How far the watermark is behind the clock; the line is named by its unit. No line if that is not known."""
        found = [(each.at_ms, each.watermark_delay_s) for each in self._thinned() if each.watermark_delay_s is not None]
        if not found:
            return {}
        largest_s = max(abs(delay_s) for _, delay_s in found)
        unit, seconds = next((each for each in _DELAY_UNITS if largest_s >= 2 * each[1]), _DELAY_UNITS[-1])
        return {unit: [(at_ms, round(delay_s / seconds, 2)) for at_ms, delay_s in found]}

    def lags(self) -> dict[str, Points]:
        """Messages of each partition that are not read yet."""
        shown = self._thinned()
        names = dict.fromkeys(name for each in shown for name in each.lags)
        return {
            name: [(each.at_ms, float(each.lags[name])) for each in shown if name in each.lags]
            for name in sorted(names)
        }

    def _thinned(self) -> list[Sample]:
        """At most `SHOWN_MAX` samples, evenly chosen; the newest one is always among them."""
        every = -(-len(self._samples) // SHOWN_MAX) or 1
        return list(self._samples)[::-1][::every][::-1]


class ClusterSamples:
    """The samples of all jobs."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobSamples] = {}

    def add(self, jobs: Iterable[JobFigures], at_ms: int) -> None:
        """Adds a sample of each running job, and forgets jobs that the coordinator does not list any more."""
        listed = list(jobs)
        known = {each.job_id for each in listed}
        for job in [job for job in self._jobs if job not in known]:
            del self._jobs[job]
        for figures in listed[:JOBS_MAX]:
            if figures.state not in FINAL_STATES:
                self._jobs.setdefault(figures.job_id, JobSamples()).add(sample_of(figures, at_ms))

    def of(self, job: str) -> JobSamples:
        """The samples of a job; none of one that is not known."""
        return self._jobs.get(job, JobSamples())


def sample_of(figures: JobFigures, at_ms: int) -> Sample:
    """A sample from the figures of a job."""
    delay_ms = figures.watermark_delay_ms
    return Sample(
        at_ms=at_ms,
        rows_in_per_s=figures.rows_in_per_s,
        rows_out_per_s=figures.rows_out_per_s,
        busy=figures.busy,
        backpressured=figures.backpressured,
        watermark_delay_s=None if delay_ms is None else delay_ms / 1000,
        lags={f"{each.topic}-{each.partition}": each.lag for each in figures.partitions},
    )
