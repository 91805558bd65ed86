"""Samples are bounded in time, number and jobs, and become lines of a plot."""

from __future__ import annotations

from headrace.client.figure_models import JobFigures, PartitionLag
from headrace.ui.views.samples import (
    JOBS_MAX,
    KEPT_MS,
    SAMPLES_MAX,
    SHOWN_MAX,
    ClusterSamples,
    JobSamples,
    sample_of,
)


def figures(job: str = "a", *, state: str = "RUNNING", rate: float = 5.0, delay_ms: int | None = 1500) -> JobFigures:
    lags = (
        PartitionLag(source="s", topic="in", partition=1, lag=7),
        PartitionLag(source="s", topic="in", partition=0, lag=3),
    )
    return JobFigures(
        job_id=job, name=job, state=state, rows_in_per_s=rate, busy=0.5, partitions=lags, watermark_delay_ms=delay_ms
    )


def test_samples_are_kept_for_a_time_and_up_to_a_number() -> None:
    samples = JobSamples()
    for at in range(3 * SAMPLES_MAX):
        samples.add(sample_of(figures(), at * 1000))
    assert len(samples) == SAMPLES_MAX
    samples.add(sample_of(figures(), 3 * SAMPLES_MAX * 1000 + KEPT_MS))
    assert len(samples) == 1


def test_a_clock_that_was_set_back_adds_nothing() -> None:
    samples = JobSamples()
    samples.add(sample_of(figures(), 2_000))
    samples.add(sample_of(figures(rate=9), 1_000))
    assert samples.rates()["in"] == [(2_000, 5.0)]


def test_a_plot_gets_a_bounded_number_of_points_with_the_newest() -> None:
    samples = JobSamples()
    for at in range(SAMPLES_MAX):
        samples.add(sample_of(figures(rate=at), at * 2_000))
    points = samples.rates()["in"]
    assert SHOWN_MAX // 2 <= len(points) <= SHOWN_MAX
    assert points[-1] == ((SAMPLES_MAX - 1) * 2_000, SAMPLES_MAX - 1.0)
    assert points == sorted(points)


def test_lines_of_partitions_load_and_watermark() -> None:
    samples = JobSamples()
    samples.add(sample_of(figures(), 1_000))
    assert samples.lags() == {"in-0": [(1_000, 3.0)], "in-1": [(1_000, 7.0)]}
    assert samples.load() == {"busy": [(1_000, 50.0)], "backpressured": [(1_000, 0.0)]}
    assert samples.delay() == {"seconds": [(1_000, 1.5)]}
    samples.add(sample_of(figures(delay_ms=4 * 86_400_000), 2_000))
    assert samples.delay()["days"][-1] == (2_000, 4.0)


def test_a_watermark_that_is_not_known_is_no_line() -> None:
    samples = JobSamples()
    samples.add(sample_of(figures(delay_ms=None), 1_000))
    assert samples.delay() == {}


def test_ended_and_forgotten_jobs_get_no_samples() -> None:
    cluster = ClusterSamples()
    cluster.add([figures("a"), figures("b", state="FAILED")], 1_000)
    cluster.add([figures("a", state="CANCELED")], 2_000)
    assert (len(cluster.of("a")), len(cluster.of("b"))) == (1, 0)
    cluster.add([figures("c")], 3_000)
    assert len(cluster.of("a")) == 0


def test_the_number_of_jobs_is_bounded() -> None:
    cluster = ClusterSamples()
    cluster.add([figures(str(number)) for number in range(JOBS_MAX + 1)], 1_000)
    assert (len(cluster.of("0")), len(cluster.of(str(JOBS_MAX)))) == (1, 0)
