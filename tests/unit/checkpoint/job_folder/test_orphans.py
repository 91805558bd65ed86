"""Orphans in a job's folder."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.checkpoint.job_folder.orphans import delete_orphans, find_orphans
from headrace.checkpoint.paths import state_path
from headrace.checkpoint.stores.opening import open_store
from support.storage.checkpoints import attempt, checkpoint, committed, history

NOW_MS = 2_000_000_000_000
HOUR_MS = 3_600_000


def test_only_what_nobody_names_and_nobody_will_goes(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    named = state_path(1, 1, "hourly", 0, "aa")
    before = state_path(2, 3, "hourly", 0, "bb")
    of_dead, given_up, in_flight, theirs, young = (
        state_path(attempt_number, epoch, "hourly", 0, name)
        for attempt_number, epoch, name in ((1, 9, "c1"), (2, 2, "c2"), (2, 5, "c3"), (3, 1, "c4"), (1, 8, "c5"))
    )
    temporary = "state/.tmp-dead"
    for path in (named, before, of_dead, given_up, in_flight, theirs, young, temporary, "code/f-12", "state/readme"):
        store.write(path, b"12345")
        age_ms = 0 if path == young else 2 * HOUR_MS
        os.utime(tmp_path / path, ns=((NOW_MS - age_ms) * 1_000_000,) * 2)
    journal = history(attempt(1), attempt(2), checkpoint(3, 2, files=[named, before]), committed(3))
    found = find_orphans(store, journal, NOW_MS)
    assert found.paths == tuple(sorted((of_dead, given_up, temporary)))
    assert found.bytes == 15
    assert store.read(of_dead) == b"12345", "looking deletes nothing"
    assert delete_orphans(store, journal, NOW_MS) == found
    assert find_orphans(store, journal, NOW_MS).paths == ()
    assert find_orphans(store, journal, NOW_MS, 0).paths == (young,)
    assert {named, before, in_flight, theirs, young} <= set(store.list(""))
