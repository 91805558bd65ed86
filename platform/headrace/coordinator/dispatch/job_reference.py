"""Resolves a job reference: an id, a unique prefix of an id, or the name of one running job. Also draws job ids."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.core.errors import UserError, did_you_mean

PREFIX_MIN = 2
"""A shorter text is not read as a prefix: a single digit would match by chance."""
LISTED_MAX = 10


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A job's id and name. `running`: no other job may have the same name now (`Entry.holds_name`)."""

    job: str
    name: str
    running: bool


def new_job_id() -> str:
    """Returns a random id: 12 hexadecimal digits."""
    return secrets.token_hex(6)


def find_job(jobs: Iterable[NamedJob], reference: str) -> str:
    """Returns the id of the referenced job. Raises UserError, with the candidates, if no job or several jobs match."""
    known = list(jobs)
    if any(each.job == reference for each in known):
        return reference
    running = [each for each in known if each.name == reference and each.running]
    begun = [each for each in known if len(reference) >= PREFIX_MIN and each.job.startswith(reference)]
    found = running or begun
    if len(found) == 1:
        return found[0].job
    if found:
        what = "running jobs are called" if running else "job ids begin with"
        raise UserError(f"{len(found)} {what} {reference!r}", remedy=f"name one by its id: {_listed(found)}")
    ended = [each for each in known if each.name == reference]
    if ended:
        raise UserError(f"no running job is called {reference!r}", remedy=f"ended ones by their id: {_listed(ended)}")
    near = did_you_mean(reference, tuple(dict.fromkeys(each.name for each in known)))
    raise UserError(f"no job {reference!r}", remedy=near or (f"jobs: {_listed(known)}" if known else "no job is known"))


def _listed(jobs: list[NamedJob]) -> str:
    more = f" and {len(jobs) - LISTED_MAX} more" if len(jobs) > LISTED_MAX else ""
    return ", ".join(f"{each.job} ({each.name})" for each in jobs[:LISTED_MAX]) + more
