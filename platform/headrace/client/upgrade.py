"""Replaces a running job by another pipeline that continues from its state; returns to the old one if that is rejected.

    stop ─> path ─> submit from it ─> RUNNING: done
                         │               │
                         └── refused     └── FAILED before it ever ran
                                └───────────────┴──> the old definition again, from the same path

Once the new job has run there is no automatic way back, because its output would be repeated. A job with a checkpoint
has run, however soon it failed afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from headrace.client.cluster_models import HOLD_SECONDS_MAX
from headrace.client.http import AWAY_SECONDS_MAX, Client
from headrace.client.requests import SubmitRequest
from headrace.core.errors import ExternalError, HeadraceError, UserError

WATCH_SECONDS = 60.0
"""How long `upgrade` waits for the new job to reach RUNNING."""
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The result of an upgrade. old: the stopped job; path: the savepoint or checkpoint that the next one starts from.

    job       the job that runs now: the new one, or the old definition again if `refused` is set
    """

    old: str
    path: str
    job: str
    refused: HeadraceError | None = None


def upgrade(
    client: Client, job: str, request: SubmitRequest, *, savepoint: str | None, tell: Callable[[str], object]
) -> Upgraded:
    """Stops `job`, with a savepoint under that folder or a last checkpoint, and submits `request` from there. A cluster
    that serves this job alone is held meanwhile.

    `tell` receives a line per step. Raises the error of a failed stop; then the job is unchanged. Raises ExternalError
    if neither the new nor the old pipeline could be submitted: the message names the path to start from.
    """
    with _held(client):
        return _upgraded(client, job, request, savepoint, tell)


@contextmanager
def _held(client: Client) -> Iterator[None]:
    # a coordinator of an earlier version refuses it, and one that does not answer fails the stop
    with suppress(HeadraceError):
        client.hold(HOLD_SECONDS_MAX)
    try:
        yield
    finally:
        # the hold expires
        with suppress(HeadraceError):
            client.hold(0)


def _upgraded(
    client: Client, job: str, request: SubmitRequest, savepoint: str | None, tell: Callable[[str], object]
) -> Upgraded:
    stopped = client.wait_trigger(client.stop(job, savepoint))
    if stopped.path is None:
        raise UserError(
            f"job {stopped.job_id} is stopped, and it had no complete checkpoint to go on from",
            remedy="submit the new pipeline: it begins at its start",
        )
    tell(f"stopped {stopped.job_id}: {stopped.path}")
    if stopped.progress is not None:
        tell(stopped.progress)
    try:
        # A coordinator that is lost amid the answer may run the new job: going back would run both.
        new = client.submit(request.model_copy(update={"from_savepoint": stopped.path}), away_s=AWAY_SECONDS_MAX)
    except (UserError, ExternalError) as refused:
        return _back(client, stopped.job_id, stopped.path, refused, tell)
    tell(f"submitted {new}")
    failure = _failure_before_it_ran(client, new)
    if failure is not None:
        return _back(client, stopped.job_id, stopped.path, failure, tell)
    return Upgraded(stopped.job_id, stopped.path, new)


def _failure_before_it_ran(client: Client, job: str) -> HeadraceError | None:
    """The reason why the job failed before RUNNING; None if it runs, or has not reached RUNNING yet."""
    deadline = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < deadline:
        status = client.status(job)
        if status.state == "FAILED" and status.checkpoint is None:
            return UserError(f"job {job} failed before it ran: {status.failure or 'no reason is known'}")
        if status.state not in {"CREATED", "SCHEDULING", "DEPLOYING", "RESTARTING", "FAILING"}:
            return None
        time.sleep(_LOOK_SECONDS)
    return None


def _back(client: Client, old: str, path: str, refused: HeadraceError, tell: Callable[[str], object]) -> Upgraded:
    tell("refused; going back to the old pipeline")
    try:
        again = client.resubmit(old, path, away_s=AWAY_SECONDS_MAX)
    except (UserError, ExternalError) as error:
        raise ExternalError(
            f"the new pipeline was refused: {refused.message}\n  and the old one could not be started again: "
            f"{error.message}",
            remedy=f"no rows are lost: submit either with --from-savepoint {path}",
        ) from error
    tell(f"the old pipeline runs again as {again}")
    return Upgraded(old, path, again, refused)
