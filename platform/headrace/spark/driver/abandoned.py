"""Deletes folders of unpublished replays that killed drivers left in checkpoint storage. No later run continues them,
because each of these runs has its own folder.

A folder is abandoned if its owner process has ended, which only a driver on the same host can find out, or if nothing
was written to it for a week (`staging_liveness`). Several drivers may do this at the same time: a second deletion of a
file is harmless. The owner file is deleted last, so that another driver can finish an interrupted deletion.
"""

from __future__ import annotations

import re
from collections import defaultdict

from headrace.checkpoint.paths import joined
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectNotFoundError, ObjectStore, StoredObject
from headrace.spark.driver.staging_liveness import OWNER, read_owner
from headrace.spark.launch.identity import unpublished_pattern, unpublished_prefix

SILENT_MAX_MS = 7 * 24 * 3_600_000
"""Age of a folder's newest file, in ms, from which the folder is abandoned. An owner writes every hour; the rest is for
suspended hosts and differences between clocks."""


def remove_abandoned(storage: str, pipeline: str, now_ms: int) -> int:
    """Deletes the pipeline's folders without an owner. Returns their number. Raises ExternalError.

    storage: URL of checkpoint storage
    """
    store = open_store(storage)
    folders: defaultdict[str, list[StoredObject]] = defaultdict(list)
    pattern = re.compile(unpublished_pattern(pipeline))
    for each in store.objects(unpublished_prefix(pipeline)):
        folder = each.path.partition("/")[0]
        if pattern.fullmatch(folder):
            folders[folder].append(each)
    abandoned = [folder for folder, objects in folders.items() if _is_abandoned(store, objects, now_ms)]
    for folder in abandoned:
        _remove(store, folder, [each.path for each in folders[folder]])
    return len(abandoned)


def _is_abandoned(store: ObjectStore, objects: list[StoredObject], now_ms: int) -> bool:
    if now_ms - max(each.modified_ms for each in objects) > SILENT_MAX_MS:
        return True
    owners = [each.path for each in objects if each.path.partition("/")[2].startswith(OWNER)]
    for path in owners:
        try:
            owner = read_owner(store.read(path))
        except ObjectNotFoundError:
            return False  # the owner has just replaced this file by a newer one, or has deleted the folder
        if owner is None or not owner.is_gone:
            return False
    return bool(owners)


def _remove(store: ObjectStore, folder: str, paths: list[str]) -> None:
    # the owner file is deleted last: a folder without one counts as abandoned only after a week
    store.delete(sorted(paths, key=lambda path: path.startswith(f"{folder}/{OWNER}")))
    left = open_store(joined(store.url, folder))
    left.delete([each.path for each in left.leftovers()])
