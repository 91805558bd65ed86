"""Headrace's pipelines are valid."""

from __future__ import annotations

import pytest
from peers.jobs import JOBS, Job
from peers.pipelines import pipeline

from headrace.local.engine.compile import compile_pipeline
from headrace.spec.reading.read import pipeline_from_dict


@pytest.mark.parametrize("job", JOBS.values(), ids=[job.name for job in JOBS.values()])
def test_pipelines_are_valid(job: Job) -> None:
    data = pipeline(job, "127.0.0.1:1", "in", "out", stop={0: 10, 1: 10, 2: 10, 3: 10})
    assert compile_pipeline(pipeline_from_dict(data)).physical.tasks
