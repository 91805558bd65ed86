"""Names of metrics follow Prometheus' conventions."""

from __future__ import annotations

import re

import pytest

from headrace.coordinator.monitoring import definitions
from headrace.coordinator.monitoring.definitions import METRICS, Kind, Metric

OTHER_UNITS = re.compile(r"_(ms|millis|milliseconds|minutes|kb|mb|kilobytes|percent|ratio)(_|$)")


def test_names_are_unique_and_all_definitions_are_listed() -> None:
    defined = [value for value in vars(definitions).values() if isinstance(value, Metric)]

    assert sorted(each.name for each in METRICS) == sorted(each.name for each in defined)
    assert len({each.name for each in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_has_the_prefix_a_base_unit_and_the_ending_of_its_kind(metric: Metric) -> None:
    assert re.fullmatch(r"headrace_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert OTHER_UNITS.search(metric.name) is None
    assert metric.help and not metric.help.endswith(".")
    assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)


def test_times_and_sizes_end_in_their_unit() -> None:
    words = ("age", "delay", "duration", "running", "size")
    lacking = [
        each.name
        for each in METRICS
        if each.kind is Kind.GAUGE and each.name.split("_")[-1] in words and each.name != "headrace_job_running"
    ]
    assert lacking == []
