"""Blobs that wait for Spark: in order, in memory and on disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace.spark.levels.envelope import Envelope, Kind
from headrace.spark.task.output import ready
from headrace.spark.task.output.ready import ReadyBlobs
from headrace.state.place import StatePlace


def blob(number: int) -> Envelope:
    return Envelope(Kind.ROWS, 1, 2, bytes(100), edge=3, sender=4, number=number)


def test_they_keep_their_order_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "READY_BYTES_MAX", 250)
    blobs = ReadyBlobs(tmp_path, StatePlace())
    for begin in (0, 10):
        for number in range(begin, begin + 10):
            blobs.append(blob(number))
        assert len(blobs._first) == 3
        assert list(blobs.take()) == [blob(number) for number in range(begin, begin + 10)]
        assert not list(blobs.take())
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(ready, "READY_BYTES_MAX", 0)
    monkeypatch.setattr(ready, "TemporaryFile", full)
    with pytest.raises(ExternalError, match=f"{tmp_path}: the disk is full") as raised:
        ReadyBlobs(tmp_path, StatePlace()).append(blob(0))
    assert "spark.local.dir" in str(raised.value.remedy)
