"""A stored job as a request again: its own definition, with its code, for another start. Blocking."""

from __future__ import annotations

import posixpath

from headrace.checkpoint.stores.opening import read_url
from headrace.client.models import CodeArchive, SubmitRequest
from headrace.coordinator.dispatch.job_store import JobSubmission


def request_again(submission: JobSubmission, parallelism: int, from_savepoint: str) -> SubmitRequest:
    """What was submitted, to start from this path. The code is read back from beside the job's checkpoints.

    Floors are not repeated: the path holds those that took effect. Raises ExternalError where the code is gone.
    """
    return SubmitRequest(
        pipeline=submission.pipeline,
        parallelism=parallelism,
        from_savepoint=from_savepoint,
        python_path=submission.options.python_path,
        code=tuple(CodeArchive.of(posixpath.basename(url), read_url(url)) for url in submission.options.code),
    )
