"""Prepares a job for its driver: plans, origin, code in storage. Blocking.

Planning imports the engine: seconds on a busy host. A coordinator answers before that, so this module
imports the engine where it is first used: in `load_planning`, or for the first job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.paths import code_path, joined
from headrace.checkpoint.stores.opening import open_store
from headrace.client.requests import SubmitRequest
from headrace.coordinator.store.submission import JobSubmission

if TYPE_CHECKING:
    from headrace.execution.origin import Origin
    from headrace.execution.planning import JobPlans


def load_planning() -> None:
    """Imports the modules that planning needs, so that the first job does not wait for them."""
    import headrace.execution.origin
    import headrace.execution.planning
    from headrace.connect.registry import load_bundled

    assert headrace.execution.origin
    load_bundled()


def plans_at(pipeline: Mapping[str, Any], parallelism: int) -> JobPlans:
    """Plans a pipeline at this parallelism. Raises InvalidPipelineError."""
    from headrace.execution.planning import JobPlans

    plans = JobPlans(pipeline)
    plans.facts(parallelism)
    return plans


def submitted_plans(pipeline: Mapping[str, Any]) -> tuple[JobPlans, int]:
    """Plans a pipeline that was not validated before. Returns the plans and its parallelism. Raises
    InvalidPipelineError.
    """
    from headrace.spec.reading.read import pipeline_from_dict

    parallelism = pipeline_from_dict(dict(pipeline)).parallelism
    return plans_at(pipeline, parallelism), parallelism


def wished_origin(request: SubmitRequest, plans: JobPlans, parallelism: int, now_ms: int) -> Origin | None:
    """Returns the savepoint or checkpoint that a request names, or None. Raises UserError, ExternalError."""
    from headrace.execution.origin import OriginWish, find_origin

    if request.from_savepoint is None:
        return None
    wish = OriginWish(
        request.from_savepoint,
        renames=request.renames,
        allow_dropped_state=request.allow_dropped_state,
        allow_drained=request.allow_drained,
        take_over=request.take_over,
        allow_lost_output=request.allow_lost_output,
        max_parallelism=request.max_parallelism,
    )
    return find_origin(wish, plans, parallelism, now_ms)


def earlier_origin(submission: JobSubmission, plans: JobPlans) -> Origin | None:
    """Returns the origin of a job that was accepted earlier; whether the origin's state fits was checked then. Raises
    UserError, ExternalError.

    Also returns None if the job has a checkpoint of its own: the origin is not needed any more, and may be deleted.
    """
    from headrace.execution.origin import origin_again

    options = submission.options
    if options.from_savepoint is None:
        return None
    if JournalStore(open_store(submission.storage), "", "").load().checkpoints:
        return None
    return origin_again(options.from_savepoint, options.renames, plans, options.parallelism)


def ship_code(request: SubmitRequest, storage: str) -> tuple[str, ...]:
    """Writes the user's code beside the job's checkpoints. Returns its URLs in order. Raises ExternalError."""
    if not request.code:
        return ()
    store = open_store(storage)
    urls = []
    for archive in request.code:
        digest = hashlib.sha256(archive.content).hexdigest()[:16]
        path = code_path(archive.name, archive.kind, digest)
        store.put_if_absent(path, archive.content)
        urls.append(joined(store.url, path))
    return tuple(urls)
