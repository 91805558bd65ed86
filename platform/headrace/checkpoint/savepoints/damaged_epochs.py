"""Finds the damaged checkpoints of a journal: those with a file that is missing, truncated or altered. A shell.

damaged = damaged_epochs(store, journal)            one listing: files that are missing or truncated
damaged = damaged_epochs(store, journal, deep=True) reads every file: also altered ones
resolve(journal, damaged)                           decides whether an earlier checkpoint may take its place
"""

from __future__ import annotations

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.manifest import FilePart, Manifest, located
from headrace.checkpoint.paths import STATE, is_absolute
from headrace.checkpoint.savepoints.savepoint import damage
from headrace.checkpoint.stores.store import ObjectStore


def damaged_epochs(store: ObjectStore, journal: Journal, *, deep: bool = False) -> dict[int, str]:
    """Epoch -> its damage, from the newest checkpoint down to the first intact one, which is not checked further.

    store: the job's folder. Raises ExternalError if it cannot be read.
    """
    if not journal.checkpoints:
        return {}
    sizes = {each.path: each.bytes for each in store.objects(STATE)}
    damaged: dict[int, str] = {}
    for record in reversed(journal.checkpoints):
        found = _misses(record.manifest, sizes, store.url)
        if found is None and deep:
            found = damage(located(record.manifest, store.url))
        if found is None:
            break
        damaged[record.manifest.epoch] = found
    return damaged


def _misses(manifest: Manifest, sizes: dict[str, int], folder: str) -> str | None:
    parts: list[FilePart] = [part for handle in manifest.states for part in handle.files]
    for part in parts:
        if is_absolute(part.path):
            continue
        size = sizes.get(part.path)
        if size is None:
            return f"{folder}/{part.path} is missing"
        if size != part.bytes:
            return f"{folder}/{part.path} has {size} bytes, {part.bytes} were written"
    return None
