"""Logs of slots: bounded in size and number."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.worker.supervision.slot_log import SlotLog, prune_logs
from support.storage.permissions import mode_of


def test_a_log_without_a_word_goes_and_another_stays(tmp_path: Path) -> None:
    silent, spoken = SlotLog(tmp_path / "logs", "a"), SlotLog(tmp_path / "logs", "b")
    os.write(spoken.fd, b"text")
    silent.close()
    spoken.close()
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["b.log"]


def test_a_log_that_grows_keeps_its_newest_text(tmp_path: Path) -> None:
    log = SlotLog(tmp_path, "a", bytes_max=10)
    os.write(log.fd, b"0123456789ab")
    log.bound()
    os.write(log.fd, b"new")
    log.bound()
    log.close()
    assert (tmp_path / "a.log").read_bytes() == b"new"
    assert (tmp_path / "a.log.1").read_bytes() == b"0123456789ab"
    assert mode_of(tmp_path / "a.log") == mode_of(tmp_path / "a.log.1") == 0o600


def test_the_oldest_logs_go_first_and_those_of_running_slots_stay(tmp_path: Path) -> None:
    for age, name in enumerate(["running", "old", "older.than", "new", "newest"]):
        (tmp_path / f"{name}.log").write_text(name)
        os.utime(tmp_path / f"{name}.log", (age, age))
    (tmp_path / "old.log.1").write_text("old")
    prune_logs(tmp_path, {tmp_path / "running.log"}, logs_max=2)
    assert {path.name for path in tmp_path.iterdir()} == {"running.log", "new.log", "newest.log"}


def test_no_folder_has_no_logs(tmp_path: Path) -> None:
    prune_logs(tmp_path / "none", set())
