"""What a monitoring system reads of the running jobs."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from headrace.coordinator.rest.metrics import JobSample, metrics_text


def test_jobs_as_prometheus_reads_them() -> None:
    text = metrics_text(
        [
            JobSample("a1", "delays", alarm=True, restarts=3, checkpoint_age_s=12.5),
            JobSample("b2", "new", alarm=False, restarts=0, checkpoint_age_s=None),
        ]
    )
    read = {
        (sample.name, sample.labels["job"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert read == {
        ("headrace_job_alarm", "a1"): 1.0,
        ("headrace_job_alarm", "b2"): 0.0,
        ("headrace_job_restarts_total", "a1"): 3.0,
        ("headrace_job_restarts_total", "b2"): 0.0,
        ("headrace_job_checkpoint_age_seconds", "a1"): 12.5,
    }


def test_without_jobs_the_metrics_are_described_all_the_same() -> None:
    assert "# TYPE headrace_job_alarm gauge" in metrics_text([])
