"""What earlier drivers of a job have left: files that no decision names. Deleted by a driver that owns the job.

A driver owns a job from its `attempt` record on: no earlier one can decide anything any more. But it may have been
stopped for minutes since, and another may own the job by now. So it deletes by name, and only names of attempts before
its own: they carry the attempt's number, and no later driver makes or names such a file but for those that a
checkpoint names. Temporary files carry none, and may be under way: they go when they are old.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from headrace.checkpoint.journal.journal import Journal, own_files
from headrace.checkpoint.journal.orphans import GRACE_MS
from headrace.checkpoint.manifest import StateHandle
from headrace.checkpoint.paths import MANIFEST, STAGED, STATE
from headrace.checkpoint.stores.store import ObjectStore
from headrace.spark.driver.publication import staged_files
from headrace.spark.driver_machine.names import savepoint_attempt

_OF_ATTEMPT = re.compile(rf"(?:{STAGED}|{STATE})(\d+)-")


def remove_files(store: ObjectStore, journal: Journal, attempt: int, now_ms: int) -> None:
    """Files of attempts before `attempt` that nobody needs: neither state that a checkpoint of the journal names, nor
    staged rows that are decided and not committed. store: the job's folder."""
    named = {path for record in journal.checkpoints for path in own_files(record.manifest)}
    if journal.uncommitted is not None:
        named |= set(staged_files(journal.uncommitted.manifest))
    store.delete(path for path in _before(store, attempt) if path not in named)
    store.delete([each.path for each in store.leftovers() if each.modified_ms <= now_ms - GRACE_MS])


def remove_savepoints(folder: ObjectStore, job: str, attempt: int, decided: Iterable[str]) -> None:
    """Savepoints of attempts before `attempt` that nobody was given. decided: URLs of those that a record names."""
    kept = {url.rstrip("/").rpartition("/")[2] for url in decided}
    folder.delete(
        path
        for path in folder.list(f"savepoint-{job}-")
        if (made_by := savepoint_attempt(job, path)) is not None
        and made_by < attempt
        and path.partition("/")[0] not in kept
    )


def remove_strays(savepoint: ObjectStore, states: Sequence[StateHandle]) -> None:
    """Files in a complete savepoint that its manifest does not name: of tries of tasks that came to nothing."""
    named = {part.path for handle in states for part in handle.files} | {MANIFEST}
    savepoint.delete([path for path in savepoint.list("") if path not in named])
    savepoint.delete([each.path for each in savepoint.leftovers()])


def _before(store: ObjectStore, attempt: int) -> list[str]:
    there = [*store.list(STAGED), *store.list(STATE)]
    return [path for path in there if (found := _OF_ATTEMPT.match(path)) and int(found[1]) < attempt]
