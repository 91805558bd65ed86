"""What a job needs before it is driven: its plans, what it starts from, its code in storage. Blocking.

Planning loads the engine, seconds on a busy host. A coordinator is up before that, so this module imports it where it
is first used: by `load_planning`, or by the first job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.journal.shell import JournalStore
from headrace.checkpoint.paths import code_path, joined
from headrace.checkpoint.stores.opening import open_store
from headrace.client.models import SubmitRequest
from headrace.coordinator.dispatch.job_store import JobSubmission

if TYPE_CHECKING:
    from headrace.execution.origin import Origin
    from headrace.execution.planning import JobPlans


def load_planning() -> None:
    """Imports what planning takes, before there is a job."""
    import headrace.execution.origin
    import headrace.execution.planning
    from headrace.connect.registry import load_bundled

    assert headrace.execution.origin
    load_bundled()


def plans_at(pipeline: Mapping[str, Any], parallelism: int) -> JobPlans:
    """Plans of a pipeline, of which that for this parallelism is made. Raises InvalidPipeline."""
    from headrace.execution.planning import JobPlans

    plans = JobPlans(pipeline)
    plans.facts(parallelism)
    return plans


def submitted_plans(pipeline: Mapping[str, Any]) -> tuple[JobPlans, int]:
    """Plans of a pipeline that nobody has looked at yet, and its parallelism. Raises InvalidPipeline."""
    from headrace.spec.reading.read import pipeline_from_dict

    parallelism = pipeline_from_dict(dict(pipeline)).parallelism
    return plans_at(pipeline, parallelism), parallelism


def wished_origin(request: SubmitRequest, plans: JobPlans, parallelism: int, now_ms: int) -> Origin | None:
    """The savepoint or checkpoint that a request names; None: none. Raises UserError, ExternalError."""
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
    )
    return find_origin(wish, plans, parallelism, now_ms)


def earlier_origin(submission: JobSubmission, plans: JobPlans) -> Origin | None:
    """The origin of a job that was accepted before: it was judged then. Raises UserError, ExternalError.

    None as well where the job has a checkpoint of its own: what it started from is not needed any more, and may be
    gone.
    """
    from headrace.execution.origin import origin_again

    options = submission.options
    if options.from_savepoint is None:
        return None
    if JournalStore(open_store(submission.storage), "", "").load().checkpoints:
        return None
    return origin_again(options.from_savepoint, options.renames, plans, options.parallelism)


def ship_code(request: SubmitRequest, storage: str) -> tuple[str, ...]:
    """Puts the user's code beside the job's checkpoints; returns its URLs in order. Raises ExternalError."""
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
