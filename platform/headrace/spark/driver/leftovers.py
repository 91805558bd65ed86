"""Deletes the files of a job's earlier drivers that no checkpoint names. Only a driver that owns the job calls this.

A driver owns a job once its `attempt` record is written: no earlier driver can decide anything any more. But this
driver may have been suspended for minutes since, and another one may own the job by now, and write files in the same
folder. So this driver deletes only files of attempts before its own, which it recognises by the attempt's number in the
file name. A later driver neither writes nor needs such a file, unless a checkpoint names it, and those are kept. The
names of temporary files contain no number, and their writes may be in progress, so they are deleted only when they are
old.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from headrace.checkpoint.job_folder.orphans import GRACE_MS
from headrace.checkpoint.journal.journal import Journal, own_files
from headrace.checkpoint.manifest import StateHandle
from headrace.checkpoint.paths import MANIFEST, STAGED, STATE
from headrace.checkpoint.stores.store import ObjectStore
from headrace.spark.driver.publication import staged_files
from headrace.spark.driver_machine.names import savepoint_attempt

_OF_ATTEMPT = re.compile(rf"(?:{STAGED}|{STATE})(\d+)-")


def remove_files(store: ObjectStore, journal: Journal, attempt: int, now_ms: int) -> None:
    """Deletes files of attempts before `attempt` that are neither state of a checkpoint in the journal nor staged rows
    that are decided and not committed. store: the job's folder.
    """
    named = {path for record in journal.checkpoints for path in own_files(record.manifest)}
    if journal.uncommitted is not None:
        named |= set(staged_files(journal.uncommitted.manifest))
    # `named` is as old as this driver's read of the journal, and may lack files of later attempts: `_before` excludes
    # those
    store.delete(path for path in _before(store, attempt) if path not in named)
    store.delete([each.path for each in store.leftovers() if each.modified_ms <= now_ms - GRACE_MS])


def remove_savepoints(folder: ObjectStore, job: str, attempt: int, decided: Iterable[str]) -> None:
    """Deletes savepoints of attempts before `attempt`, except the decided ones. decided: URLs of savepoints that a
    record names.
    """
    kept = {url.rstrip("/").rpartition("/")[2] for url in decided}
    folder.delete(
        path
        for path in folder.list(f"savepoint-{job}-")
        if (made_by := savepoint_attempt(job, path)) is not None
        and made_by < attempt
        and path.partition("/")[0] not in kept
    )


def remove_strays(savepoint: ObjectStore, states: Sequence[StateHandle]) -> None:
    """Deletes files in a complete savepoint that its manifest does not name: failed task attempts wrote them."""
    named = {part.path for handle in states for part in handle.files} | {MANIFEST}
    savepoint.delete([path for path in savepoint.list("") if path not in named])
    savepoint.delete([each.path for each in savepoint.leftovers()])


def _before(store: ObjectStore, attempt: int) -> list[str]:
    there = [*store.list(STAGED), *store.list(STATE)]
    return [path for path in there if (found := _OF_ATTEMPT.match(path)) and int(found[1]) < attempt]
