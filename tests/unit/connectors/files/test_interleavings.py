"""The exactly-once files sink under any interleaving of writing, barriers, decisions, commits cut short, lost
slots, lost coordinators and writers that wake up late: what can be seen is always what was committed, each row once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.core.batch import TS
from headrace.core.errors import ExternalError
from headrace.core.types import schema_of
from headrace_connectors.files import FilesSinkConfig
from headrace_connectors.files.parts import publication
from headrace_connectors.files.sink import FilesCommitter, StagingWriter
from support.suite.properties import weighted

CONTEXT = SinkContext("j", "out", 0, 1, schema_of({"id": "int64"}), format="json")


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


@contextmanager
def killed_after(calls: int) -> Iterator[None]:
    """The process ends at the call to the file system that comes after so many."""
    left = calls

    def counted(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return real(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patched:
        owners = ((os, "link"), (os, "fsync"), (Path, "touch"), (Path, "unlink"), (Path, "rename"))
        for owner, name in (*owners, (publication, "rename_new")):
            patched.setattr(owner, name, counted(getattr(owner, name)))
        with suppress(Killed):
            yield


class Job:
    """The engine around the sink, in a few lines: the source counts, the journal is one field."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = FilesSinkConfig(path=str(folder), delivery="exactly-once")
        self.attempt = 0
        self.epoch = self.decided_epoch = 0
        self.names: list[str] = []
        self.taken: list[int] = []
        """Rows in files that a reader has taken away."""
        self.zombies: list[StagingWriter] = []
        self.writers: list[StagingWriter] = []
        self.prepared: list[Committable] | None = None
        self.decided: list[Committable] = []
        self.position = self.prepared_position = self.decided_position = self.committed_position = 0
        self.new_coordinator()
        self.start(1)

    def new_coordinator(self) -> None:
        committer = self.config.open_committer(CONTEXT)
        assert isinstance(committer, FilesCommitter)
        self.committer = committer

    def start(self, parallelism: int) -> None:
        """As a recovery does: commit, record, fence, open."""
        self.commit()
        self.attempt += 1
        self.committer.fence(self.names)
        contexts = [
            replace(CONTEXT, attempt=self.attempt, subtask=subtask, parallelism=parallelism)
            for subtask in range(parallelism)
        ]
        self.names += [name for context in contexts for name in self.config.transactions(context)]
        self.writers = []
        for context in contexts:
            writer = self.config.open_writer(context)
            assert isinstance(writer, StagingWriter)
            self.writers.append(writer)
        self.position = self.decided_position
        self.prepared = None

    def write(self, rows: int) -> None:
        for _ in range(rows):
            writer = self.writers[self.position % len(self.writers)]
            writer.write(SinkBatch(pl.DataFrame({"id": [self.position], TS: [0]})))
            self.position += 1

    def barrier(self) -> None:
        """An epoch that is not decided yet is given up for this one."""
        if self.decided:
            return
        self.epoch += 1
        flushed = [each for writer in self.writers for each in writer.flush(self.epoch)]
        self.prepared = [Committable(**json.loads(json.dumps(asdict(each)))) for each in flushed]
        self.prepared_position = self.position

    def decide(self) -> None:
        if self.prepared is not None:
            self.decided = list(self.committer.describe(self.prepared))
            self.decided_position, self.prepared = self.prepared_position, None
            self.decided_epoch = self.epoch

    def commit(self) -> None:
        assert self.committer.commit(self.decided) == []
        self.committed_position, self.decided = self.decided_position, []
        for writer in self.writers:
            writer.committed(self.decided_epoch, {})

    def commit_cut_short(self, calls: int) -> None:
        with killed_after(calls):
            self.committer.commit(self.decided)
        self.new_coordinator()

    def barrier_cut_short(self, calls: int, parallelism: int) -> None:
        with killed_after(calls):
            for writer in self.writers:
                writer.flush(self.epoch + 1)
        self.zombies += self.writers
        self.start(parallelism)

    def lose_slots(self, parallelism: int, *, frozen: bool) -> None:
        if frozen:
            self.zombies += self.writers
        else:
            for writer in self.writers:
                writer.close()
        self.start(parallelism)

    def wake_a_zombie(self, which: int) -> None:
        if self.zombies:
            zombie = self.zombies[which % len(self.zombies)]
            # it may notice that it was fenced
            with suppress(ExternalError):
                zombie.write(SinkBatch(pl.DataFrame({"id": [-1], TS: [0]})))
                zombie.flush(self.epoch)

    def reader_takes(self, which: int) -> None:
        """Every file whose place in the list is none of `which`'s bits: all of them for 0."""
        for number, path in enumerate(sorted(self._published())):
            if not which >> number % 3 & 1:
                self.taken += _rows(path)
                os.unlink(path)  # noqa: PTH108 - the calls of `Path` are those of the sink

    def _published(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if not path.name.startswith(".")]

    @property
    def visible(self) -> list[int]:
        """All rows that a reader has got, or can get."""
        return sorted([*self.taken, *(row for path in self._published() for row in _rows(path))])


def _rows(path: Path) -> list[int]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


small = st.integers(0, 7)
parallelism = st.integers(1, 3)
steps = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 4)),
    st.tuples(st.just("barrier")),
    st.tuples(st.just("decide")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit_cut_short"), small),
    st.tuples(st.just("barrier_cut_short"), small, parallelism),
    st.tuples(st.just("close_slots"), parallelism),
    st.tuples(st.just("freeze_slots"), parallelism),
    st.tuples(st.just("wake_a_zombie"), small),
    st.tuples(st.just("reader_takes"), small),
    st.tuples(st.just("sweep")),
)


def take(job: Job, step: tuple[Any, ...]) -> None:
    match step:
        case ("close_slots", number):
            job.lose_slots(number, frozen=False)
        case ("freeze_slots", number):
            job.lose_slots(number, frozen=True)
        case ("sweep",):
            job.committer.sweep(job.attempt)
        case (name, *given):
            getattr(job, name)(*given)


@weighted(4)
@given(st.lists(steps, max_size=40))
def test_what_is_visible_is_what_was_committed(taken: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 18)
        job = Job(Path(folder))
        for step in taken:
            take(job, step)
            if job.decided:
                # a commit that was cut short has shown a part of its epoch, each row once
                seen = job.visible
                assert seen == sorted(set(seen))
                assert set(range(job.committed_position)) <= set(seen) <= set(range(job.decided_position))
            else:
                assert job.visible == list(range(job.committed_position))
        job.lose_slots(1, frozen=False)
        job.committer.sweep(job.attempt)
        assert job.visible == list(range(job.committed_position))
        hidden = [path.name for path in Path(folder).iterdir() if path.name.startswith(".")]
        assert all(name.startswith(".committed-j-out-") for name in hidden), "nothing else that is hidden is left"
        assert len({name.rpartition("-")[2] for name in hidden}) <= 1, "markers are those of the last epoch"
        for zombie in job.zombies:
            zombie.close()
