"""Folders of killed drivers go, those of living ones stay; on this host at once, from elsewhere after a week."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError
from headrace.spark.driver import unpublished as ownership
from headrace.spark.driver.unpublished import (
    OWNER,
    SILENT_MAX_MS,
    Owner,
    OwnerDocument,
    read_owner,
    remove_abandoned,
    unpublished_job,
)
from support.processes.running import WAIT_SECONDS, wait_until

KEY = "0123abcd"
OWNING = """
import sys, time
from headrace.checkpoint.stores.opening import open_store
from headrace.spark.driver.unpublished import Owner
Owner(open_store(sys.argv[1]))
print("owned", flush=True)
time.sleep(600)
"""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def left(storage: Path) -> set[str]:
    return {path.parent.name for path in storage.glob("*/*") if any(each.is_file() for each in path.rglob("*"))}


def folder(storage: Path, pipeline: str = "p") -> Path:
    """A replay's, with rows."""
    path = storage / unpublished_job(pipeline, KEY)
    open_store(str(path)).write("staged/1-1-out-0-0-aa.parquet", b"rows")
    return path


def owned_by(path: Path, document: OwnerDocument) -> None:
    open_store(str(path)).write(f"{OWNER}aa.json", document.model_dump_json().encode())


def test_a_killed_driver_is_cleaned_up_after_and_a_living_one_is_not(tmp_path: Path) -> None:
    killed, living = folder(tmp_path), folder(tmp_path)
    processes = [
        subprocess.Popen([sys.executable, "-c", OWNING, str(path)], stdout=subprocess.PIPE, text=True)
        for path in (killed, living)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "owned\n"
        assert remove_abandoned(str(tmp_path), "p", now_ms()) == 0
        processes[0].kill()
        # not waited for yet: as a child of somebody who does not care
        wait_until(lambda: remove_abandoned(str(tmp_path), "p", now_ms()) == 1, "the process has ended")
        assert left(tmp_path) == {living.name}
    finally:
        for process in processes:
            process.kill()
            process.wait(WAIT_SECONDS)
            assert process.stdout is not None
            process.stdout.close()
    assert remove_abandoned(str(tmp_path), "p", now_ms()) == 1
    assert left(tmp_path) == set()


def test_a_number_that_was_given_out_again_is_another_process(tmp_path: Path) -> None:
    mine = Owner(open_store(str(folder(tmp_path))))
    mine.release()
    (path,) = tmp_path.glob(f"*/{OWNER}*.json")
    document = read_owner(path.read_bytes())
    assert document is not None
    assert not document.is_gone
    assert document.model_copy(update={"started": "1"}).is_gone
    assert not document.model_copy(update={"started": "1", "host": "elsewhere"}).is_gone


@pytest.mark.parametrize("owned", [True, False])
def test_what_nobody_can_look_at_goes_when_it_was_silent_for_a_week(tmp_path: Path, owned: bool) -> None:
    path = folder(tmp_path)
    if owned:
        owned_by(path, OwnerDocument(host="elsewhere", pid=1, started="1"))
    now = now_ms()
    assert remove_abandoned(str(tmp_path), "p", now + SILENT_MAX_MS - 3_600_000) == 0
    assert remove_abandoned(str(tmp_path), "p", now + SILENT_MAX_MS + 60_000) == 1
    assert left(tmp_path) == set()


def test_an_owner_is_heard_again_and_again(tmp_path: Path) -> None:
    path = folder(tmp_path)
    first = now_ms() - 2 * SILENT_MAX_MS
    for each in path.rglob("*.*"):
        os.utime(each, (first / 1000, first / 1000))
    owner = Owner(open_store(str(path)), beat_s=0.02)
    begun = set(path.glob(f"{OWNER}*"))
    wait_until(lambda: not begun & set(path.glob(f"{OWNER}*")), "it was heard again")
    assert remove_abandoned(str(tmp_path), "p", now_ms()) == 0
    owner.release()
    owner.release()
    assert len(list(path.glob(f"{OWNER}*.json"))) == 1
    assert "headrace-owner" not in {thread.name for thread in threading.enumerate()}


def test_only_what_is_the_pipelines_own_and_publishes_nothing(tmp_path: Path) -> None:
    others = [folder(tmp_path, "p-q"), folder(tmp_path, f"p-{KEY}-u0123456789abcdef")]
    published = tmp_path / f"replay-p-{KEY}-1"
    open_store(str(published)).write("journal/00000001.json", b"{}")
    assert remove_abandoned(str(tmp_path), "p", now_ms() + 2 * SILENT_MAX_MS) == 0
    assert left(tmp_path) == {path.name for path in (*others, published)}


def test_two_at_once_and_one_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [folder(tmp_path) for _ in range(20)]
    gone = OwnerDocument(host=ownership._host(), pid=os.getpid(), started="1")
    for path in paths:
        owned_by(path, gone)
    delete = FileStore.delete

    def interrupted(store: FileStore, names: list[str]) -> None:
        delete(store, list(names)[:1])
        raise ExternalError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "delete", interrupted)
        with pytest.raises(ExternalError):
            remove_abandoned(str(tmp_path), "p", now_ms())
    assert len(list(tmp_path.glob(f"*/{OWNER}*.json"))) == len(paths), "owners go last"
    removed: list[int] = []
    threads = [
        threading.Thread(target=lambda: removed.append(remove_abandoned(str(tmp_path), "p", now_ms())))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(removed) >= len(paths)
    assert left(tmp_path) == set()
