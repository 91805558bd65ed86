"""A files publisher that dies, or falls asleep, at every step between its last row and the last hidden name."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import polars as pl
import pytest

from headrace.connect.publisher import Share
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.errors import ExternalError, InternalError
from headrace.core.types import schema_of
from headrace_connectors.files import FilesSinkConfig
from headrace_connectors.files.parts import publication
from headrace_connectors.files.publisher import FilesPublisher, ShareRecord, ShareRecords

SCHEMA = schema_of({"n": "int64"})
ROWS = 9


class PowerCutError(Exception):
    """Not an OSError: nothing here catches it."""


@pytest.fixture(autouse=True)
def _many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is a file of its own."""
    monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 1)


def opened(folder: Path, *, node: str = "out", epoch: int = 1, rows: int = ROWS) -> FilesPublisher:
    context = SinkContext("j", node, 0, 1, SCHEMA, format="json")
    return FilesPublisher(FilesSinkConfig(path=str(folder)), context, Share(epoch, rows))


def written(folder: Path, *, node: str = "out", epoch: int = 1, first: int = 0) -> FilesPublisher:
    publisher = opened(folder, node=node, epoch=epoch)
    for begin in range(publisher.published, ROWS, 3):
        publisher.write(SinkBatch(pl.DataFrame({"n": range(first + begin, first + begin + 3)})))
    return publisher


def seen(folder: Path) -> list[int]:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return [json.loads(line)["n"] for path in files for line in path.read_text().splitlines()]


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


RECORD = ".part-j-out-0-1.published"


@pytest.mark.parametrize("calls", range(1, 12))
@pytest.mark.parametrize("call", ["link", "rename", "unlink"])
def test_one_that_dies_at_any_step_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, calls: int
) -> None:
    dying = written(tmp_path)
    count = 0
    real_link, real_rename, real_unlink = os.link, Path.rename, Path.unlink

    def step() -> None:
        nonlocal count
        count += 1
        if count == calls:
            raise PowerCutError

    def link(source: Path, target: Path) -> None:
        step()
        real_link(source, target)

    def rename(path: Path, target: Path) -> Path:
        step()
        return real_rename(path, target)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        step()
        real_unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        fakes = {"link": (os, link), "rename": (Path, rename), "unlink": (Path, unlink)}
        patched.setattr(fakes[call][0], call, fakes[call][1])
        with contextlib.suppress(PowerCutError):
            dying.finish()
    following = written(tmp_path)
    following.finish()
    following.close()
    assert seen(tmp_path) == list(range(ROWS))
    assert hidden(tmp_path) == [RECORD]


@pytest.mark.parametrize("calls", range(1, 6))
def test_a_reader_may_take_files_from_one_that_dies_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    dying, count, taken = written(tmp_path), 0, []
    rename_new = publication.rename_new

    def step(staged: Path, final: Path) -> bool:
        nonlocal count
        count += 1
        if count == calls:
            raise PowerCutError
        return rename_new(staged, final)

    def take() -> None:
        taken.extend(seen(tmp_path))
        for path in tmp_path.iterdir():
            if not path.name.startswith("."):
                path.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(publication, "rename_new", step)
        with contextlib.suppress(PowerCutError):
            dying.finish()
    take()
    for _ in range(2):
        following = written(tmp_path)
        following.finish()
        following.close()
        take()
    assert sorted(taken) == list(range(ROWS))


def test_one_that_had_staged_all_and_slept_is_told_by_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes up just before it puts its record, beside one that has put another."""
    sleeping = written(tmp_path)
    real_put = ShareRecords.put

    def put_after_another(records: ShareRecords, record: ShareRecord) -> ShareRecord:
        monkeypatch.undo()
        monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 1)
        another = written(tmp_path)
        another.finish()
        return real_put(records, record)

    monkeypatch.setattr(ShareRecords, "put", put_after_another)
    sleeping.finish()
    sleeping.close()
    assert seen(tmp_path) == list(range(ROWS))
    assert hidden(tmp_path) == [RECORD]


def test_one_that_slept_for_an_epoch_is_told_by_the_newer_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeping = written(tmp_path)
    real_put = ShareRecords.put

    def put_late(records: ShareRecords, record: ShareRecord) -> ShareRecord:
        monkeypatch.undo()
        written(tmp_path).finish()
        written(tmp_path, epoch=2, first=100).finish()
        return real_put(records, record)

    monkeypatch.setattr(ShareRecords, "put", put_late)
    sleeping.finish()
    assert seen(tmp_path) == [*range(ROWS), *range(100, 100 + ROWS)]
    assert hidden(tmp_path) == [".part-j-out-0-2.published"]


def test_who_is_shut_out_while_it_writes_hears_it(tmp_path: Path) -> None:
    first = written(tmp_path)
    second = opened(tmp_path)
    with pytest.raises(ExternalError) as raised:
        first.finish()
    assert raised.value.retry
    first.close()
    second.close()
    assert seen(tmp_path) == []
    assert hidden(tmp_path) == []


def test_sinks_that_share_a_folder_take_free_numbers(tmp_path: Path) -> None:
    ours, theirs = written(tmp_path), written(tmp_path, node="other", first=100)
    ours.finish()
    theirs.finish()
    for node, first in (("out", 0), ("other", 100)):
        written(tmp_path, node=node, first=first).finish()
    assert seen(tmp_path) == [*range(ROWS), *range(100, 100 + ROWS)]
    assert {path.name for path in tmp_path.glob("part-*")} == {f"part-j-1-0-{n}.json" for n in range(6)}


def test_another_share_of_that_epoch_is_refused(tmp_path: Path) -> None:
    written(tmp_path).finish()
    with pytest.raises(ExternalError, match="9 of 9 rows of epoch 1 are published"):
        opened(tmp_path, rows=4)


def test_a_short_share_is_not_published(tmp_path: Path) -> None:
    publisher = opened(tmp_path)
    publisher.write(SinkBatch(pl.DataFrame({"n": range(3)})))
    with pytest.raises(InternalError, match="has 9 rows, and its publisher was given 3"):
        publisher.finish()
    publisher.close()
    assert seen(tmp_path) == []
    assert opened(tmp_path).published == 0
