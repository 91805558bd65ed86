"""Names of a driver's savepoints. A name contains the attempt's number, so that a later attempt recognises the files of
earlier ones. Pure.
"""

from __future__ import annotations

import re

from headrace.checkpoint.paths import savepoint_url


def new_savepoint(directory: str, job: str, epoch: int, attempt: int, unique: str) -> str:
    """Returns the URL of the folder for an attempt's savepoint. unique: hex digits that no other driver has."""
    return savepoint_url(directory, job, epoch, f"{attempt}x{unique}")


def savepoint_attempt(job: str, path: str) -> int | None:
    """Returns the attempt that wrote a file, from its path in the folder of savepoints; None: another job or no driver
    wrote it.
    """
    found = re.match(rf"savepoint-{re.escape(job)}-\d+-(\d+)x[0-9a-f]+/", path)
    return int(found[1]) if found else None
