"""What earlier drivers of a job have left: files that no decision names. Deleted by a driver that owns the job.

A driver owns a job from its `attempt` record on: no earlier one can decide anything any more. But it may have been
stopped for minutes since, and another may own the job by now. So it deletes by name, and only names of attempts before
its own: they carry the attempt's number, and no later driver makes or names such a file but for those that a
checkpoint names. Temporary files carry none, and may be under way: they go when they are old.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.checkpoint.collect import GRACE_MS
from headrace.checkpoint.journal import Journal, own_files
from headrace.checkpoint.paths import STAGED, STATE, savepoint_url, unique_part
from headrace.checkpoint.store import ObjectStore, open_folder
from headrace.spark.publication import staged_files

_OF_ATTEMPT = re.compile(rf"(?:{STAGED}|{STATE})(\d+)-")


def new_savepoint(directory: str, job: str, epoch: int, attempt: int) -> str:
    """URL of the folder for an attempt's savepoint: its name carries the attempt."""
    return savepoint_url(directory, job, epoch, f"{attempt}x{unique_part()}")


def remove_files(store: ObjectStore, journal: Journal, attempt: int, now_ms: int) -> None:
    """Files of attempts before `attempt` that no checkpoint of the journal names. store: the job's folder."""
    named: set[str] = set()
    for record in journal.checkpoints:
        named |= own_files(record.manifest) | set(staged_files(record.manifest))
    store.delete(path for path in _before(store, attempt) if path not in named)
    store.delete([each.path for each in store.leftovers() if each.modified_ms <= now_ms - GRACE_MS])


def remove_savepoints(directory: str, job: str, attempt: int, decided: Iterable[str]) -> None:
    """Savepoints of attempts before `attempt` that nobody was given. decided: URLs of those that a record names."""
    folder = open_folder(directory)
    pattern = re.compile(rf"savepoint-{re.escape(job)}-\d+-(\d+)x[0-9a-f]+/")
    kept = {url.rstrip("/").rpartition("/")[2] for url in decided}
    there = folder.list(f"savepoint-{job}-")
    folder.delete(
        path
        for path in there
        if (found := pattern.match(path)) and int(found[1]) < attempt and path.partition("/")[0] not in kept
    )


def _before(store: ObjectStore, attempt: int) -> list[str]:
    there = [*store.list(STAGED), *store.list(STATE)]
    return [path for path in there if (found := _OF_ATTEMPT.match(path)) and int(found[1]) < attempt]
