"""Submits the job of a cluster that serves one job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest
    from headrace.job_cluster.part import Part

RETRY_SECONDS = 1.0
TRIES_MAX = 600
"""Tries to submit, while coordinators start."""


def submitted(part: Part, request: SubmitRequest) -> str:
    """Submits the job, once whoever does it and how often, by the key of the request; returns its id.

    Raises UserError for a job that the coordinator refuses, ExternalError if none answers.
    """
    for tried in range(1, TRIES_MAX + 1):
        try:
            with part.leader() as client:
                return client.submit(request)
        except ExternalError:
            if tried == TRIES_MAX:
                raise
            time.sleep(RETRY_SECONDS)
    raise AssertionError  # the last try returns or raises
