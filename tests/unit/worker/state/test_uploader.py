"""From snapshots to acknowledgements: an epoch is acknowledged when all of a slot's subtasks are in storage."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, SubtaskDocument
from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.store import Data
from headrace.connect.sink import Committable
from headrace.core.errors import ExternalError
from headrace.core.source_state import SourceState, SplitState
from headrace.rpc.messages import Acked, Declined, FromSlot
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.slot.attempt.epochs import EPOCHS_MAX
from headrace.worker.state.snapshot_documents import UploadPlan
from headrace.worker.state.uploader import Uploader
from support.processes.running import wait_until
from support.storage.uploads import uploading

PLAN = UploadPlan("j", 3, {"a": 2, "b": 2}, 8)


class Shelf(FileStore):
    """A folder that may refuse."""

    refuses = False

    def write(self, path: str, data: Data) -> None:
        if self.refuses:
            raise ExternalError("no room", retry=True)
        super().write(path, data)


def snapshot(task: str, epoch: int, chunks: Iterable[int] = ()) -> SubtaskSnapshot:
    made = tuple(Chunk(number, pl.DataFrame({"k": [number]})) for number in chunks)
    return SubtaskSnapshot(task, 1, epoch, ((task, StateSnapshot("s", StateKind.KEYED, ("k",), made)),))


def documents(said: FromSlot) -> dict[str, SubtaskDocument]:
    assert isinstance(said, Acked)
    return {each.task: each for each in SUBTASK_DOCUMENTS.validate_json(said.subtasks)}


@pytest.fixture
def said() -> list[FromSlot]:
    return []


def wait_for(said: list[FromSlot], count: int) -> None:
    wait_until(lambda: len(said) >= count, f"only {said} was said")


def test_an_epoch_is_acknowledged_once_every_subtask_is_in_storage(tmp_path: Path, said: list[FromSlot]) -> None:
    uploader = Uploader(PLAN, FileStore(str(tmp_path)), FileStore, said.append)
    with uploading(uploader):
        source = SourceState((SplitState("t", 0, 17),), 5)
        committable = Committable("b", 1, 1, {"id": "x"})
        uploader.order(1, "")
        uploader.snapshotted(SubtaskSnapshot("b", 1, 1, (), ("b", source), (committable,)))
        uploader.snapshotted(snapshot("a", 1, [1, 2]))
        wait_for(said, 1)
    (acked,) = said
    assert isinstance(acked, Acked)
    assert (acked.job, acked.attempt, acked.epoch) == ("j", 3, 1)
    made = documents(acked)
    (handle,) = made["a"].states
    assert (handle.node, handle.state, handle.rows) == ("a", "s", 2)
    assert (handle.subtask, handle.first_group, handle.last_group) == (1, 4, 7)
    assert acked.bytes_written == sum((tmp_path / part.path).stat().st_size for part in handle.files)
    assert made["b"].sources == {"b": source}
    assert made["b"].committables[0].payload == {"id": "x"}


def test_later_epochs_write_what_is_new_and_name_everything(tmp_path: Path, said: list[FromSlot]) -> None:
    uploader = Uploader(PLAN, FileStore(str(tmp_path)), FileStore, said.append)
    with uploading(uploader):
        for epoch, chunks in ((1, [1, 2]), (2, [1, 2, 3]), (3, [1, 2, 3])):
            uploader.order(epoch, "")
            uploader.snapshotted(snapshot("a", epoch, chunks))
            uploader.snapshotted(snapshot("b", epoch))
            wait_for(said, epoch)
    handles = [documents(each)["a"].states[0] for each in said]
    assert [len(handle.files) for handle in handles] == [1, 2, 2]
    assert handles[1].files == handles[2].files
    assert handles[0].files[0] == handles[1].files[0]
    assert len(list((tmp_path / "state").iterdir())) == 2


def test_a_snapshot_waits_for_the_word_of_its_epoch_and_fills_the_savepoint(
    tmp_path: Path, said: list[FromSlot]
) -> None:
    uploader = Uploader(PLAN, FileStore(str(tmp_path / "job")), FileStore, said.append)
    with uploading(uploader):
        uploader.snapshotted(snapshot("a", 1, [1, 2]))
        uploader.snapshotted(snapshot("b", 1))
        assert said == []
        uploader.order(1, str(tmp_path / "savepoint"))
        wait_for(said, 1)
    made = documents(said[0])["a"]
    assert made.states[0].rows == made.savepoint[0].rows == 2
    (part,) = made.savepoint[0].files
    assert (tmp_path / "savepoint" / part.path).is_file()


def test_storage_that_refuses_declines_the_epoch_and_the_next_one_is_whole(
    tmp_path: Path, said: list[FromSlot]
) -> None:
    store = Shelf(str(tmp_path))
    uploader = Uploader(PLAN, store, FileStore, said.append)
    with uploading(uploader):
        store.refuses = True
        uploader.order(1, "")
        uploader.snapshotted(snapshot("a", 1, [1]))
        wait_for(said, 1)
        store.refuses = False
        uploader.snapshotted(snapshot("b", 1, [1]))
        uploader.order(2, "")
        uploader.snapshotted(snapshot("a", 2, [1, 2]))
        uploader.snapshotted(snapshot("b", 2, [1]))
        wait_for(said, 2)
    declined, acked = said
    assert isinstance(declined, Declined)
    assert (declined.epoch, declined.failure.message, declined.failure.retry) == (1, "no room", True)
    assert documents(acked)["a"].states[0].rows == 2
    files = {part.path for each in documents(acked).values() for handle in each.states for part in handle.files}
    assert files == {f"state/{path.name}" for path in (tmp_path / "state").iterdir()}


def test_what_comes_for_an_epoch_that_was_given_up_is_dropped(tmp_path: Path, said: list[FromSlot]) -> None:
    uploader = Uploader(PLAN, FileStore(str(tmp_path)), FileStore, said.append)
    with uploading(uploader):
        uploader.snapshotted(snapshot("a", 1, [1]))
        uploader.give_up(1)
        uploader.order(1, "")
        uploader.snapshotted(snapshot("b", 1, [1]))
        uploader.order(2, "")
        uploader.snapshotted(snapshot("a", 2, [1]))
        uploader.snapshotted(snapshot("b", 2, [1]))
        wait_for(said, 1)
    (acked,) = said
    assert isinstance(acked, Acked)
    assert acked.epoch == 2


def test_epochs_do_not_pile_up(tmp_path: Path, said: list[FromSlot]) -> None:
    uploader = Uploader(PLAN, FileStore(str(tmp_path)), FileStore, said.append)
    for epoch in range(EPOCHS_MAX + 2):
        uploader.snapshotted(snapshot("a", epoch))
    assert [each.epoch for each in said if isinstance(each, Declined)] == [0, 1]


def test_rows_are_forgotten_once_they_are_acknowledged(tmp_path: Path, said: list[FromSlot]) -> None:
    """Not only when the next epoch comes."""
    uploader = Uploader(UploadPlan("j", 3, {"a": 2}, 8), FileStore(str(tmp_path)), FileStore, said.append)
    made = snapshot("a", 1, [1])
    rows = weakref.ref(made.states[0][1].chunks[0].frame)
    with uploading(uploader):
        uploader.order(1, "")
        uploader.snapshotted(made)
        del made
        wait_for(said, 1)
        wait_until(lambda: rows() is None, "nobody has the rows")
