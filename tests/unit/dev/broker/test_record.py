"""What a home remembers of its broker, where that is not, or no longer, true."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace_dev.broker.record import bring_down, read_record, status


def remember(home: Home, text: str) -> None:
    home.broker.mkdir(parents=True)
    (home.broker / "broker.json").write_text(text)


def test_a_home_without_a_broker(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert read_record(home) is None
    assert bring_down(home) is None
    assert not status(home).running


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_a_record_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    remember(home, text)
    assert read_record(home) is None
    assert bring_down(home) is None


def test_a_pid_that_now_belongs_to_another_process_is_not_our_broker(tmp_path: Path) -> None:
    home = Home(tmp_path)
    remember(home, json.dumps({"pid": os.getpid(), "port": 9092, "data": str(tmp_path), "log": "log"}))
    found = status(home)
    assert (found.running, found.answering) == (False, False)
    assert bring_down(home) is None
    assert read_record(home) is None, "a stale record is cleared away"


def test_a_home_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="HEADRACE_HOME"):
        bring_down(Home(tmp_path / "file"))
