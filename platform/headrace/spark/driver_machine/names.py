"""Names of a driver's savepoints: each carries its attempt, so that a later attempt knows what is left behind. Pure."""

from __future__ import annotations

import re

from headrace.checkpoint.paths import savepoint_url


def new_savepoint(directory: str, job: str, epoch: int, attempt: int, unique: str) -> str:
    """URL of the folder for an attempt's savepoint. unique: hex digits that no other driver has."""
    return savepoint_url(directory, job, epoch, f"{attempt}x{unique}")


def savepoint_attempt(job: str, path: str) -> int | None:
    """The attempt that wrote a file, by its path in the folder of savepoints; None: it is of another job, or no
    driver's."""
    found = re.match(rf"savepoint-{re.escape(job)}-\d+-(\d+)x[0-9a-f]+/", path)
    return int(found[1]) if found else None
