"""What drivers left in checkpoint storage that were killed: folders of replays that publish nothing. Nobody takes them
up again, for each run has a folder of its own.

A folder is abandoned where the process that it belongs to has ended, seen from the same host; from elsewhere, where it
has been silent for a week (`staging_owner`). Several drivers may look at the same time: what is deleted twice is
gone all the same, and the owner goes last, so that whoever is interrupted is followed by another.
"""

from __future__ import annotations

import re
from collections import defaultdict

from headrace.checkpoint.paths import joined
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectMissing, ObjectStore, StoredObject
from headrace.spark.driver.staging_owner import OWNER, read_owner
from headrace.spark.launch.identity import unpublished_pattern, unpublished_prefix

SILENT_MAX_MS = 7 * 24 * 3_600_000
"""An owner writes every hour; the rest is for hosts that sleep, and for clocks."""


def remove_abandoned(storage: str, pipeline: str, now_ms: int) -> int:
    """Deletes the folders of that pipeline that nobody owns any more; how many they were. Raises ExternalError.

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
        except ObjectMissing:
            return False  # it has just said so again, or has deleted all of it
        if owner is None or not owner.is_gone:
            return False
    return bool(owners)


def _remove(store: ObjectStore, folder: str, paths: list[str]) -> None:
    store.delete(sorted(paths, key=lambda path: path.startswith(f"{folder}/{OWNER}")))
    left = open_store(joined(store.url, folder))
    left.delete([each.path for each in left.leftovers()])
