"""Orphans: objects in a job's folder that no record names, left behind by attempts that died during a write.

    state file   not in any retained checkpoint, and
                   of an earlier attempt, or
                   of this attempt, but of an epoch before the oldest retained one
    leftover     temporary file of an interrupted write

An attempt goes on naming files of the checkpoint that it restored. That one is retained until the attempt has completed
a checkpoint, and every later one names all files of earlier attempts that the ones after it can still name. So a file
that no retained checkpoint names now will never be named again.

Both count only if they are older than the grace time (`GRACE_MS`), because a slot of an earlier attempt may still be
writing. Files of later attempts belong to another coordinator. User code is never an orphan: its name is a hash of its
content, so it exists once, and it is small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.checkpoint.journal.journal import Journal, own_files
from headrace.checkpoint.paths import STATE, state_file
from headrace.checkpoint.stores.store import ObjectStore, StoredObject

GRACE_MS = 60 * 60 * 1000
"""Age in ms from which an unnamed object counts as an orphan."""


@dataclass(frozen=True, slots=True)
class Orphans:
    """Deletable objects: paths relative to the job's folder, and their total size."""

    paths: tuple[str, ...]
    bytes: int


def find_orphans(store: ObjectStore, journal: Journal, now_ms: int, grace_ms: int = GRACE_MS) -> Orphans:
    """Lists orphans; deletes nothing. store: the job's folder; journal: loaded from it before this call."""
    found = [*_unnamed(store.objects(STATE), journal), *store.leftovers()]
    old = [each for each in found if each.modified_ms <= now_ms - grace_ms]
    return Orphans(tuple(sorted(each.path for each in old)), sum(each.bytes for each in old))


def delete_orphans(store: ObjectStore, journal: Journal, now_ms: int, grace_ms: int = GRACE_MS) -> Orphans:
    """Deletes orphans and returns them. Only the journal's writer may call it, as long as it has not been replaced."""
    orphans = find_orphans(store, journal, now_ms, grace_ms)
    store.delete(orphans.paths)
    return orphans


def _unnamed(objects: Iterable[StoredObject], journal: Journal) -> list[StoredObject]:
    retained = journal.checkpoints
    named = {path for record in retained for path in own_files(record.manifest)}
    oldest = retained[0].manifest.epoch if retained else 0
    unnamed = []
    for each in objects:
        about = state_file(each.path)
        if about is None or each.path in named:
            continue
        if about.attempt < journal.attempt or (about.attempt == journal.attempt and about.epoch < oldest):
            unnamed.append(each)
    return unnamed
