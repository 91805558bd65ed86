"""Turns a stored job into a submit request: the same definition and code, for another start. Blocking."""

from __future__ import annotations

import posixpath

from headrace.checkpoint.stores.opening import read_url
from headrace.client.requests import CodeArchive, SubmitRequest
from headrace.coordinator.store.submission import JobSubmission


def request_again(submission: JobSubmission, parallelism: int, from_savepoint: str, key: str | None) -> SubmitRequest:
    """Returns a request that starts the stored job from this savepoint. Reads the job's code from its checkpoint
    storage.

    Floors (watermarks assigned to idle partitions) are not part of the request: the savepoint contains those that took
    effect. Raises ExternalError if the code is gone.
    """
    return SubmitRequest(
        pipeline=submission.pipeline,
        parallelism=parallelism,
        from_savepoint=from_savepoint,
        python_path=submission.options.python_path,
        code=tuple(CodeArchive.of(posixpath.basename(url), read_url(url)) for url in submission.options.code),
        key=key,
    )
