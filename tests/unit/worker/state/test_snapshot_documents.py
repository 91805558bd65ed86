"""Documents of snapshots: which files they name, over epochs, in a savepoint, and after a write that failed."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest

from headrace.connect.sink import Committable
from headrace.core.errors import ExternalError
from headrace.core.source_state import SourceState, SplitState
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.snapshot_documents import SnapshotDocuments, UploadPlan

PLAN = UploadPlan("j", 3, {"a": 2, "b": 4}, 8)


class Shelf:
    """Names files after their number; accepts `room` files."""

    def __init__(self, prefix: str, room: int = 10) -> None:
        self.prefix = prefix
        self.room = room
        self.names: list[str] = []

    def write(self, _data: bytes) -> str:
        if len(self.names) == self.room:
            raise ExternalError("no room")
        self.names.append(f"{self.prefix}{len(self.names)}")
        return self.names[-1]


def snapshot(
    epoch: int, chunks: Iterable[int], *, task: str = "a", state: str = "s", node: str = "n"
) -> SubtaskSnapshot:
    made = tuple(Chunk(number, pl.DataFrame({"k": [number]})) for number in chunks)
    return SubtaskSnapshot(task, 1, epoch, ((node, StateSnapshot(state, StateKind.KEYED, ("k",), made)),))


def test_a_later_document_names_earlier_files_and_writes_what_is_new() -> None:
    documents, shelf = SnapshotDocuments(PLAN), Shelf("f")
    documents.document(snapshot(1, [1, 2]), shelf.write)
    (handle,) = documents.document(snapshot(2, [1, 2, 3]), shelf.write).states
    assert [(part.path, part.rows) for part in handle.files] == [("f0", 2), ("f1", 1)]
    assert handle.columns == {"k": "Int64"}


@pytest.mark.parametrize("other", [{"task": "b"}, {"state": "t"}, {"node": "m"}])
def test_the_files_of_another_task_node_or_state_are_its_own(other: dict[str, str]) -> None:
    documents, shelf = SnapshotDocuments(PLAN), Shelf("f")
    documents.document(snapshot(1, [1]), shelf.write)
    (handle,) = documents.document(snapshot(1, [1], **other), shelf.write).states
    assert [part.path for part in handle.files] == ["f1"]


@pytest.mark.parametrize(("task", "groups"), [("a", (4, 7)), ("b", (2, 3))])
def test_a_handle_has_the_key_groups_of_its_subtask(task: str, groups: tuple[int, int]) -> None:
    (handle,) = SnapshotDocuments(PLAN).document(snapshot(1, [1], task=task), Shelf("f").write).states
    assert (handle.subtask, handle.kind, handle.keys) == (1, StateKind.KEYED.value, ("k",))
    assert (handle.first_group, handle.last_group) == groups


def test_a_savepoint_has_the_whole_state_in_files_of_its_own() -> None:
    documents, shelf, folder = SnapshotDocuments(PLAN), Shelf("f"), Shelf("whole")
    documents.document(snapshot(1, [1]), shelf.write)
    document = documents.document(snapshot(2, [1, 2]), shelf.write, whole=folder.write)
    assert [part.path for handle in document.savepoint for part in handle.files] == ["whole0"]
    assert document.savepoint[0].rows == document.states[0].rows == 2
    assert documents.document(snapshot(3, [1, 2]), shelf.write).savepoint == ()


def test_a_file_that_could_not_be_written_is_never_named() -> None:
    documents, shelf = SnapshotDocuments(PLAN), Shelf("f", room=1)
    documents.document(snapshot(1, [1]), shelf.write)
    with pytest.raises(ExternalError):
        documents.document(snapshot(2, [1, 2]), shelf.write)
    shelf.room = 2
    (handle,) = documents.document(snapshot(3, [1, 2]), shelf.write).states
    assert [(part.path, part.rows) for part in handle.files] == [("f0", 1), ("f1", 1)]


def test_a_document_has_positions_counters_and_committables() -> None:
    source = SourceState((SplitState("t", 0, 17),), 5)
    committable = Committable("b", 1, 1, {"id": "x"})
    document = SnapshotDocuments(PLAN).document(
        SubtaskSnapshot("b", 1, 1, (), ("b", source), (committable,)), Shelf("f").write
    )
    assert (document.task, document.subtask, document.states) == ("b", 1, ())
    assert document.sources == {"b": source}
    assert [each.payload for each in document.committables] == [{"id": "x"}]
