"""What staged files go through on their way to their names, and what stands in that way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from headrace.connect.sink import Committable, Committer, SinkBatch, SinkContext
from headrace.core.batch import TS
from headrace.core.errors import ExternalError
from headrace.core.types import schema_of
from headrace_connectors.files import FilesSinkConfig
from headrace_connectors.files.parts import publication
from headrace_connectors.files.parts.part_names import HiddenFile, WriterName, open_name, staged_name
from headrace_connectors.files.sink import StagingWriter
from support.processes.running import WAIT_SECONDS

SCHEMA = schema_of({"id": "int64"})
CONTEXT = SinkContext("job-1", "out", 2, 3, SCHEMA, format="json", attempt=4)


def batch(*ids: int) -> SinkBatch:
    return SinkBatch(pl.DataFrame({"id": ids, TS: ids}))


class Sink:
    """A sink in a folder, and one writer of it."""

    def __init__(self, folder: Path, context: SinkContext = CONTEXT) -> None:
        self.folder = folder
        self.config = FilesSinkConfig(path=str(folder), delivery="exactly-once")
        self.context = context
        writer = self.config.open_writer(context)
        assert isinstance(writer, StagingWriter)
        self.writer = writer
        committer = self.config.open_committer(context)
        assert committer is not None
        self.committer: Committer = committer

    def prepare(self, epoch: int, *ids: int) -> list[Committable]:
        self.writer.write(batch(*ids))
        return list(self.writer.flush(epoch))

    @property
    def seen(self) -> dict[str, list[int]]:
        """Published file -> ids in it."""
        files = sorted(path for path in self.folder.iterdir() if not path.name.startswith("."))
        return {path.name: [json.loads(line)["id"] for line in path.read_text().splitlines()] for path in files}

    @property
    def hidden(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.name.startswith("."))


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "out")


def staged_path(sink: Sink, committable: Committable, number: int = 0) -> Path:
    return sink.folder / str(committable.payload["files"][number]["staged"])


def test_names() -> None:
    random = "0123456789abcdef" * 2
    for writer in (
        WriterName("job", "out", 0, 0),
        WriterName("a-1-b", "late.bad", 12, 345),
        WriterName("7-7", "x", 1, 2),
    ):
        assert WriterName.parsed(str(writer)) == writer
        assert HiddenFile.parsed(open_name(writer, random)) == HiddenFile(writer, None)
        assert HiddenFile.parsed(staged_name(writer, 17, 3, random)) == HiddenFile(writer, 17)
    for other in (".part-job-out-0-0.tmp", f"part-job-out-0-0-{random}.tmp", f".part-out-0-0-{random}.tmp", ".other"):
        assert HiddenFile.parsed(other) is None


def test_files_get_the_name_that_they_are_told_to(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 9)
    sink.writer.write(batch(1))
    sink.writer.write(batch(2, 3))
    prepared = sink.prepare(7)
    assert sink.seen == {}
    assert prepared == sink.committer.describe(prepared)
    [committable] = prepared
    assert (committable.name, committable.rows) == ("job-1-out-4-2", 3)
    assert sink.config.transactions(CONTEXT) == ("job-1-out-4-2",)
    assert sink.committer.commit(prepared) == []
    assert sink.seen == {"part-job-1-7-2-0.json": [1], "part-job-1-7-2-1.json": [2, 3]}
    assert [path.name for path in sink.hidden] == [".committed-job-1-out-4-2-7"]


def test_closing_removes_only_what_was_not_flushed(sink: Sink) -> None:
    prepared = sink.prepare(7, 1, 2)
    sink.writer.write(batch(3))
    assert len(sink.hidden) == 2
    sink.writer.close()
    assert sink.hidden == [staged_path(sink, prepared[0])]


def test_a_free_name_is_taken_beside_foreign_files(sink: Sink) -> None:
    (sink.folder / "part-job-1-7-2-0.json").write_text('{"id":100}\n')
    assert sink.committer.commit(sink.prepare(7, 1)) == []
    assert sink.seen == {"part-job-1-7-2-0.json": [100], "part-job-1-7-2-1.json": [1]}


@pytest.mark.parametrize("call", ["describe", "commit"])
def test_a_foreign_file_is_never_replaced(sink: Sink, call: Literal["describe", "commit"]) -> None:
    prepared = sink.prepare(7, 1)
    (sink.folder / "part-job-1-7-2-0.json").write_text('{"id":100}\n')
    for _ in range(2):
        with pytest.raises(ExternalError, match=r"part-job-1-7-2-0\.json is not a file of this sink") as raised:
            getattr(sink.committer, call)(prepared)
        assert not raised.value.retry
    assert sink.seen == {"part-job-1-7-2-0.json": [100]}
    (sink.folder / "part-job-1-7-2-0.json").rename(sink.folder / "theirs.json")
    assert sink.committer.commit(prepared) == []
    assert sink.seen == {"part-job-1-7-2-0.json": [1], "theirs.json": [100]}


def test_a_foreign_file_that_comes_in_between(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = sink.prepare(7, 1)
    rename_new = publication.rename_new

    def late(source: Path, target: Path) -> bool:
        target.write_text('{"id":100}\n')
        return rename_new(source, target)

    monkeypatch.setattr(publication, "rename_new", late)
    with pytest.raises(ExternalError, match="is not a file of this sink"):
        sink.committer.commit(prepared)
    assert sink.seen == {"part-job-1-7-2-0.json": [100]}


def test_a_published_file_is_known_by_its_content(sink: Sink) -> None:
    prepared = sink.prepare(7, 1)
    assert sink.committer.commit(prepared) == []
    published = sink.folder / "part-job-1-7-2-0.json"
    shutil.copy(published, sink.folder / "copy")
    (sink.folder / "copy").replace(published)
    assert sink.committer.commit(prepared) == []
    assert sink.committer.describe(prepared) == prepared
    published.write_text('{"id":2}\n')
    with pytest.raises(ExternalError, match="is not a file of this sink"):
        sink.committer.commit(prepared)


def test_a_staged_file_that_somebody_changed(sink: Sink) -> None:
    prepared = sink.prepare(7, 1)
    with staged_path(sink, prepared[0]).open("a") as file:
        file.write("more")
    for call in (sink.committer.describe, sink.committer.commit):
        with pytest.raises(ExternalError, match="somebody has changed it"):
            call(prepared)
    assert sink.seen == {}


def test_what_is_neither_staged_nor_published_is_lost(sink: Sink) -> None:
    first, second = sink.prepare(7, 1)[0], sink.prepare(8, 2)[1]
    staged_path(sink, first).unlink()
    with pytest.raises(ExternalError, match="is not there, though its writer has staged it"):
        sink.committer.describe([second, first])
    assert sink.committer.commit([second, first]) == [first]
    assert sink.seen == {"part-job-1-8-2-0.json": [2]}


def test_an_epoch_that_has_lost_a_part_is_not_published(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 1)
    sink.writer.write(batch(1))
    [committable] = sink.prepare(7, 2)
    staged_path(sink, committable, 1).unlink()
    assert sink.committer.commit([committable]) == [committable]
    assert sink.seen == {}


def test_an_epoch_that_has_lost_a_part_when_another_is_published(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 1)
    sink.writer.write(batch(1))
    [committable] = sink.prepare(7, 2)
    sink.committer.commit([committable])
    (sink.folder / "part-job-1-7-2-1.json").unlink()
    # as a version without markers has left it
    (sink.folder / ".committed-job-1-out-4-2-7").unlink()
    with pytest.raises(ExternalError, match=r"part-job-1-7-2-1\.json is gone, though others") as raised:
        sink.committer.commit([committable])
    assert not raised.value.retry


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_reader_may_take_files_before_the_commit_is_known(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, files: int, *, in_one_step: bool
) -> None:
    """The coordinator dies between the publication and its durable record; the commit is asked for again."""
    monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 1)
    if not in_one_step:
        monkeypatch.setattr(publication, "rename_new", lambda *_: False)
    for number in range(files - 1):
        sink.writer.write(batch(number))
    prepared = sink.prepare(7, 100)
    for taken in range(files + 1):
        another = sink.config.open_committer(sink.context)
        assert another is not None
        assert another.commit(prepared) == []
        assert list(another.describe(prepared)) == prepared
        # one more is away each time, and none comes back
        assert len(sink.seen) == files - taken
        for name in list(sink.seen)[:1]:
            (sink.folder / name).unlink()


def test_markers_stay_for_as_long_as_their_commit_may_be_asked_for_again(sink: Sink) -> None:
    def markers() -> list[str]:
        return sorted(path.name for path in sink.hidden if path.name.startswith(".committed-"))

    (sink.folder / ".committed-job-9-out-1-0-3").touch()
    other = ".committed-job-9-out-1-0-3"
    first = sink.prepare(7, 1)
    assert sink.committer.commit(first) == []
    both = sink.prepare(8, 2)
    assert len(both) == 2
    assert sink.committer.commit(both) == []
    assert markers() == [".committed-job-1-out-4-2-7", ".committed-job-1-out-4-2-8", other]
    sink.writer.committed(8, {})
    assert sink.committer.commit(sink.prepare(9, 3)) == []
    assert markers() == [".committed-job-1-out-4-2-9", other]


def test_a_folder_that_is_away_has_lost_nothing(sink: Sink) -> None:
    prepared = sink.prepare(7, 1)
    away = sink.folder.rename(sink.folder.with_name("away"))
    with pytest.raises(ExternalError, match="cannot write into") as raised:
        sink.committer.commit(prepared)
    assert raised.value.retry
    assert sink.committer.open_transactions() == []
    sink.committer.fence(["job-1-out-4-2"])
    away.rename(sink.folder)
    assert sink.committer.commit(prepared) == []
    assert sink.seen == {"part-job-1-7-2-0.json": [1]}


def test_a_fence_takes_only_what_it_names(sink: Sink) -> None:
    others = [
        Sink(sink.folder, replace(CONTEXT, **changed))
        for changed in ({"subtask": 22}, {"attempt": 44}, {"node": "out2"}, {"job": "job"}, {"job": "1-job-1"})
    ]
    kept = [each for other in others for each in other.prepare(7, 9)]
    sink.prepare(7, 1)
    sink.writer.write(batch(2))
    sink.committer.fence(["job-1-out-4-2", "never-used-0-0"])
    assert len(sink.hidden) == len(kept)
    for other, committable in zip(others, kept, strict=True):
        assert other.committer.commit([committable]) == []
    with pytest.raises(ExternalError, match="cannot write into"):
        sink.writer.flush(8)


def test_a_sweep_leaves_later_attempts_alone(sink: Sink) -> None:
    later = Sink(sink.folder, replace(CONTEXT, attempt=5))
    later.prepare(8, 1)
    sink.prepare(7, 2)
    assert sink.committer.sweep(4) == []
    assert sink.committer.sweep(5) == ["job-1-out-4-2"]
    assert [each.attempt for each in sink.committer.open_transactions()] == [5]


def test_open_transactions_of_all_jobs(sink: Sink) -> None:
    Sink(sink.folder, replace(CONTEXT, job="other", node="elsewhere")).prepare(3, 1)
    sink.prepare(7, 1)
    sink.prepare(8, 2)
    own = sink.committer.open_transactions()
    assert [each.identity for each in own] == [{"prepared": "job-1-out-4-2-7"}, {"prepared": "job-1-out-4-2-8"}]
    assert all(each.started_at_ms > 0 and each.places == (str(sink.folder),) for each in own)
    everywhere = sink.config.open_committer(replace(CONTEXT, job=""))
    assert everywhere is not None
    assert {(each.job, each.sink) for each in everywhere.open_transactions()} == {
        ("job-1", "out"),
        ("other", "elsewhere"),
    }


def test_two_sinks_of_a_job_in_one_folder(sink: Sink) -> None:
    other = Sink(sink.folder, replace(CONTEXT, node="other"))
    prepared = [(each, each.prepare(epoch, 10 * epoch)) for epoch in (7, 8) for each in (sink, other)]
    for each, committables in prepared:
        assert each.committer.commit(committables) == []
    assert sink.seen == {
        "part-job-1-7-2-0.json": [70],
        "part-job-1-7-2-1.json": [70],
        "part-job-1-8-2-0.json": [80],
        "part-job-1-8-2-1.json": [80],
    }


def test_an_at_least_once_writer_leaves_staged_files_alone(sink: Sink) -> None:
    prepared = sink.prepare(7, 1)
    FilesSinkConfig(path=str(sink.folder)).open_writer(replace(CONTEXT, parallelism=1, subtask=0)).close()
    assert sink.committer.commit(prepared) == []
    assert sink.seen == {"part-job-1-7-2-0.json": [1]}


COMMITS_AND_IS_KILLED = """
import json, os, pathlib, signal, sys
from headrace.connect.sink import Committable, SinkContext
from headrace.core.types import schema_of
from headrace_connectors.files import FilesSinkConfig
from headrace_connectors.files.parts import publication

committer = FilesSinkConfig(path=sys.argv[1], delivery="exactly-once").open_committer(
    SinkContext("job-1", "out", 0, 1, schema_of({"id": "int64"}), format="json")
)
left = 0

def counted(real):
    def call(*given, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    return call

os.fsync, pathlib.Path.touch = counted(os.fsync), counted(pathlib.Path.touch)
publication.rename_new = counted(publication.rename_new)
statuses = []
for left, committable in enumerate(json.load(sys.stdin)):
    child = os.fork()
    if not child:
        committer.commit([Committable(**committable)])
        os._exit(0)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(statuses))
"""


def commit_and_be_killed(sink: Sink, committables: list[Committable]) -> list[int]:
    """A process commits each; the one for number n is killed by SIGKILL once it has made n calls to the file system.
    Gives their exit codes."""
    command = [sys.executable, "-c", COMMITS_AND_IS_KILLED, str(sink.folder)]
    words = json.dumps([asdict(each) for each in committables])
    run = subprocess.run(command, input=words, text=True, stdout=subprocess.PIPE, check=True, timeout=WAIT_SECONDS)
    codes: list[int] = json.loads(run.stdout)
    return codes


def test_a_commit_that_is_killed_anywhere_is_finished_by_the_next(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """touch, fsync, rename, rename, fsync: a process is killed before each of them, and one gets through."""
    monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 1)
    for epoch in range(6):
        sink.writer.write(batch(epoch))
        prepared = sink.prepare(epoch, 100 + epoch)
    assert commit_and_be_killed(sink, prepared) == [-signal.SIGKILL] * 5 + [0]
    for calls in range(6):
        assert sum(name.startswith(f"part-job-1-{calls}-") for name in sink.seen) == min(max(calls - 2, 0), 2)
    assert sink.committer.commit(prepared) == []
    assert all(path.name.startswith(".committed-job-1-out-4-2-") for path in sink.hidden)
    assert sink.seen == {
        f"part-job-1-{epoch}-2-{number}.json": [100 * number + epoch] for epoch in range(6) for number in (0, 1)
    }


def test_a_file_system_that_is_full_for_a_while(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = sink.prepare(7, 1)

    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(publication, "rename_new", full)
        patched.setattr(os, "fsync", full)
        with pytest.raises(ExternalError, match="No space left") as raised:
            sink.committer.commit(prepared)
        assert raised.value.retry, "what is decided is asked for until there is room"
        sink.writer.write(batch(2))
        with pytest.raises(ExternalError, match="No space left"):
            sink.writer.flush(8)
    assert sink.committer.commit(prepared) == []
    assert sink.seen == {"part-job-1-7-2-0.json": [1]}
