"""Renders values of the running jobs as Prometheus text. Pure but for the Prometheus library.

An alarm is 0 or 1; its text is in the job's status and log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.coordinator.monitoring.definitions import METRICS, Kind, Subject
from headrace.coordinator.monitoring.values import ClusterValues, JobValues, Value, cluster_values, job_values

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(jobs: Iterable[JobValues], cluster: ClusterValues | None = None) -> str:
    """Returns all values in the text format 0.0.4. cluster: None: of a run without one."""
    values = [value for job in jobs for value in job_values(job)]
    if cluster is not None:
        values += cluster_values(cluster)
    registry = CollectorRegistry()
    registry.register(_Values(values, with_cluster=cluster is not None))
    return generate_latest(registry).decode()


class _Values(Collector):
    def __init__(self, values: Iterable[Value], *, with_cluster: bool) -> None:
        self._values = tuple(values)
        self._with_cluster = with_cluster

    def collect(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
            each.name: (CounterMetricFamily if each.kind is Kind.COUNTER else GaugeMetricFamily)(
                each.name, each.help, labels=each.labels
            )
            for each in METRICS
            if self._with_cluster or each.subject is not Subject.CLUSTER
        }
        for value in self._values:
            families[value.metric.name].add_metric(value.labels, value.value)
        yield from families.values()
