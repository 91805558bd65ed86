"""The state that a user names: a savepoint, a checkpoint, a job's folder, or a job of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.checkpoint.paths import absolute
from headrace.checkpoint.savepoints.savepoint import Found, find
from headrace.client.discovery import connect
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import UnreachableError, UserError

_COMPLETE = ("completed", "committed")


@dataclass(frozen=True, slots=True)
class FoundState:
    """A savepoint or checkpoint. job: the id of the job that was named; None: a path was. age_ms: since its barrier."""

    found: Found
    job: str | None
    age_ms: int


def find_state(
    place: str,
    *,
    epoch: int | None = None,
    fresh: bool = False,
    coordinator: str | None = None,
    clock: Clock | None = None,
) -> FoundState:
    """Finds a savepoint or checkpoint.

    place   a path or URL that `find` accepts; else a job: its id, a unique prefix of it, or the name of a running one
    epoch   which of the job's retained checkpoints; None: the newest complete one
    fresh   a checkpoint of the job is taken first
    Raises UserError if there is none, ExternalError, UnreachableError.
    """
    now_ms = (clock or SystemClock()).now_ms
    if is_path(place):
        if fresh:
            raise UserError(f"no checkpoint can be taken of {place}", remedy="name a running job, or leave out fresh")
        found, job = find(place, epoch), None
    else:
        found = _of_job(place, epoch, fresh=fresh, coordinator=coordinator)
        job = found.manifest.job
    return FoundState(found, job, max(0, now_ms() - found.manifest.created_at_ms))


def is_path(place: str) -> bool:
    """Whether a text names a path or URL, not a job: jobs have no `/` in their names."""
    return "/" in place or place.startswith((".", "~")) or Path(place).exists()


def _of_job(job: str, epoch: int | None, *, fresh: bool, coordinator: str | None) -> Found:
    try:
        client = connect(coordinator)
    except UnreachableError as error:
        raise UserError(
            f"there is no savepoint or checkpoint at {absolute(job)}, and no cluster that has a job {job!r}",
            remedy="name a path, or the cluster with --coordinator or HEADRACE_COORDINATOR",
        ) from error
    with client:
        if fresh:
            client.wait_trigger(client.checkpoint(job))
        checkpoints = client.checkpoints(job)
    complete = [each for each in checkpoints if each.status in _COMPLETE and each.path is not None]
    asked = [each for each in complete if epoch in {None, each.epoch}]
    if not asked:
        retained = ", ".join(str(each.epoch) for each in complete)
        if epoch is not None and retained:
            raise UserError(f"job {job} has no checkpoint {epoch}", remedy=f"retained: {retained}")
        raise UserError(f"job {job} has no complete checkpoint yet", remedy="take one first: --fresh")
    for each in asked[:-1]:
        try:
            return find(each.path or "")
        except UserError:
            # pruned meanwhile, or a savepoint that its owner has moved
            continue
    return find(asked[-1].path or "")
