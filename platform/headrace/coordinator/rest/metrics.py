"""Renders values of the running jobs as Prometheus text. Pure but for the Prometheus library.

An alarm is 0 or 1; its text is in the job's status and log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

LABELS = ("job", "name")
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class JobSample:
    """A running job's values. checkpoint_age_s: since its newest complete checkpoint; None: it has none yet."""

    job: str
    name: str
    alarm: bool
    restarts: int
    checkpoint_age_s: float | None


def metrics_text(samples: Iterable[JobSample]) -> str:
    """Returns all samples in the text format 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_Samples(tuple(samples)))
    return generate_latest(registry).decode()


class _Samples(Collector):
    def __init__(self, samples: tuple[JobSample, ...]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        alarm = GaugeMetricFamily("headrace_job_alarm", "1: a person should look at the job", labels=LABELS)
        restarts = CounterMetricFamily("headrace_job_restarts", "Restarts since the coordinator began", labels=LABELS)
        age = GaugeMetricFamily(
            "headrace_job_checkpoint_age_seconds", "Since the newest complete checkpoint", labels=LABELS
        )
        for each in self._samples:
            labels = (each.job, each.name)
            alarm.add_metric(labels, float(each.alarm))
            restarts.add_metric(labels, each.restarts)
            if each.checkpoint_age_s is not None:
                age.add_metric(labels, each.checkpoint_age_s)
        yield from (alarm, restarts, age)
