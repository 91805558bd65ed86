"""A subtask's share of restored state: every row of every state reaches those that it belongs to, once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, FilePart, StateHandle
from headrace.checkpoint.own_handles import own_handles
from headrace.checkpoint.paths import joined
from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.opening import read_url_range
from headrace.core.errors import ExternalError
from headrace.core.group_ranges import subtask_of
from headrace.core.keygroups import key_groups
from headrace.execution.origin import rehashed
from headrace.rpc.messages import Acked, FromSlot
from headrace.state import redistribute
from headrace.state.parquet import checksum, read_row_groups, row_groups_of
from headrace.state.row_groups import ROW_GROUP_ROWS_MAX
from headrace.state.snapshot import Chunk, RestoredFrame, StateKind, StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.restore import OwnFolders, restored_states
from headrace.worker.state.snapshot_documents import UploadPlan
from headrace.worker.state.uploader import Uploader
from support.processes.running import wait_until
from support.storage.checkpoints import manifest
from support.storage.uploads import uploading
from support.suite.properties import weighted

GROUPS = 12


def read_states(
    handles: Iterable[StateHandle], nodes: Iterable[str], subtask: int, **given: Any
) -> dict[str, dict[str, list[RestoredFrame]]]:
    """All frames of the states."""
    restored = restored_states(handles, nodes, subtask, **given)
    return {node: {state: list(frames) for state, frames in own.items()} for node, own in restored.items()}


def written(folder: Path, parallelism: int, states: list[list[StateSnapshot]]) -> list[StateHandle]:
    """Handles of one task's states, as its subtasks' slots acknowledged them, with absolute paths."""
    handles: list[StateHandle] = []
    for subtask, own in enumerate(states):
        said: list[FromSlot] = []
        uploader = Uploader(
            UploadPlan("j", 1, {"t": parallelism}, GROUPS), FileStore(str(folder)), FileStore, said.append
        )
        with uploading(uploader):
            uploader.order(1, "")
            uploader.snapshotted(SubtaskSnapshot("t", subtask, 1, tuple(("t", state) for state in own)))
            wait_until(partial(bool, said), "nothing was acknowledged")
        (acked,) = said
        assert isinstance(acked, Acked)
        handles += [handle for each in SUBTASK_DOCUMENTS.validate_json(acked.subtasks) for handle in each.states]
    return [
        handle.model_copy(
            update={
                "files": tuple(
                    part.model_copy(update={"path": joined(str(folder), part.path)}) for part in handle.files
                )
            }
        )
        for handle in handles
    ]


def owned(rows: list[int], subtask: int, parallelism: int) -> pl.DataFrame:
    frame = pl.DataFrame({"k": rows}, schema={"k": pl.Int64})
    if not rows:
        return frame
    owners = [subtask_of(int(group), parallelism, GROUPS) for group in key_groups(frame, ["k"], GROUPS)]
    return frame.filter(pl.Series([owner == subtask for owner in owners]))


@weighted(0.1)
@given(st.sets(st.integers(0, 50), max_size=20), st.integers(1, 4), st.integers(1, 4))
def test_every_row_comes_back_once_whatever_the_parallelism(
    tmp_path_factory: pytest.TempPathFactory, rows: set[int], before: int, after: int
) -> None:
    folder = tmp_path_factory.mktemp("state")
    keyed = [owned(sorted(rows), subtask, before) for subtask in range(before)]
    states = [
        [
            StateSnapshot("keyed", StateKind.KEYED, ("k",), (Chunk(1, frame[::2]), Chunk(2, frame[1::2]))),
            StateSnapshot("list", StateKind.LIST, (), (Chunk(1, frame),)),
            StateSnapshot("union", StateKind.UNION, (), (Chunk(1, frame),)),
            StateSnapshot("all", StateKind.BROADCAST, (), (Chunk(1, pl.DataFrame({"k": [7]})),)),
        ]
        for frame in keyed
    ]
    handles = written(folder, before, states)
    found: dict[str, list[list[int]]] = {}
    for subtask in range(after):
        restored = read_states(handles, ["t"], subtask, of=after, max_parallelism=GROUPS, read=read_url_range)
        assert set(restored) == {"t"}
        for state, frames in restored["t"].items():
            found.setdefault(state, []).append(sorted(value for each in frames for value in each.frame["k"].to_list()))
    assert found["keyed"] == [owned(sorted(rows), subtask, after)["k"].to_list() for subtask in range(after)]
    assert sorted(value for own in found["list"] for value in own) == sorted(rows)
    assert found["union"] == [sorted(rows)] * after
    assert found["all"] == [[7]] * after


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    state = StateSnapshot("keyed", StateKind.KEYED, ("k",), (Chunk(1, pl.DataFrame({"k": [1, 2, 3]})),))
    handles = written(tmp_path, 1, [[state]])
    path = Path(handles[0].files[0].path)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(ExternalError, match="is damaged") as raised:
        read_states(handles, ["t"], 0, of=1, max_parallelism=GROUPS, read=read_url_range)
    assert str(path) in str(raised.value)
    path.unlink()
    with pytest.raises(ExternalError):
        read_states(handles, ["t"], 0, of=1, max_parallelism=GROUPS, read=read_url_range)


ROWS = 300_000
"""Rows of a state of several row groups in each subtask."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> list[StateHandle]:
    """The handles of a keyed state of `ROWS` rows, which two subtasks wrote."""
    chunks = [owned(list(range(ROWS)), subtask, 2) for subtask in range(2)]
    frames = [rows.with_columns(text=pl.col("k").hash().cast(pl.String)) for rows in chunks]
    states = [[StateSnapshot("sums", StateKind.KEYED, ("k",), (Chunk(1, frame),))] for frame in frames]
    return written(tmp_path_factory.mktemp("large"), 2, states)


@dataclass
class Reads:
    """Reads files as `read_url_range` does, and counts."""

    total: int = 0

    def __call__(self, path: str, offset: int, *, length: int) -> bytes:
        data = read_url_range(path, offset, length=length)
        self.total += len(data)
        return data


def test_a_slot_reads_little_more_than_its_share(large: list[StateHandle]) -> None:
    state_bytes = sum(part.bytes for handle in large for part in handle.files)
    for subtask in range(3):
        reads = Reads()
        restored = read_states(large, ["t"], subtask, of=3, max_parallelism=GROUPS, read=reads)
        rows = pl.concat([each.frame for each in restored["t"]["sums"]])
        assert sorted(rows["k"]) == owned(list(range(ROWS)), subtask, 3)["k"].to_list()
        assert reads.total <= 1.2 * state_bytes / 3


def test_an_unchanged_range_of_key_groups_is_read_once_and_without_hashing(
    large: list[StateHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(redistribute, "key_groups")
    reads = Reads()
    restored = read_states(large, ["t"], 1, of=2, max_parallelism=GROUPS, read=reads)["t"]["sums"]
    assert sum(each.frame.height for each in restored) == large[1].rows
    assert reads.total <= large[1].files[0].bytes


def test_frames_are_read_one_after_the_other_and_again(large: list[StateHandle]) -> None:
    """A restore holds a piece, whatever the state's size."""
    reads, state_bytes = Reads(), sum(part.bytes for handle in large for part in handle.files)
    states = restored_states(large, ["t"], 0, of=1, max_parallelism=GROUPS, read=reads, piece_bytes=1 << 20)
    assert reads.total == 0, "nothing is read before somebody iterates"
    frames = states["t"]["sums"]
    first = next(iter(frames))
    assert reads.total < state_bytes / 4
    assert first.frame.estimated_size() < 2 << 20
    pieces = list(frames)
    assert len(pieces) > 4
    assert sorted(pl.concat([each.frame for each in pieces])["k"]) == list(range(ROWS))
    again = pl.concat([each.frame for each in frames])
    assert again.equals(pl.concat([each.frame for each in pieces]))


def test_damage_names_state_and_key_groups_and_hinders_no_other_subtask(
    large: list[StateHandle], tmp_path: Path
) -> None:
    (part,) = large[0].files
    data = bytearray(Path(part.path).read_bytes())
    described = row_groups_of(bytes(data))
    assert described is not None
    data[described.groups[-1].offset] ^= 1
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(data)
    altered = large[0].model_copy(update={"files": (part.model_copy(update={"path": str(copy)}),)})
    assert read_states([altered], ["t"], 0, of=6, max_parallelism=GROUPS, read=read_url_range)["t"]["sums"]
    with pytest.raises(ExternalError) as raised:
        read_states([altered], ["t"], 0, of=2, max_parallelism=GROUPS, read=read_url_range)
    last = described.groups[-1]
    assert raised.value.message == (
        f"{copy} of state 'sums' of node 't' is damaged: "
        f"row group {len(described.groups) - 1}, {last.describe()}, is altered"
    )
    copy.write_bytes(data[:-1])
    with pytest.raises(ExternalError, match="ends before"):
        read_states([altered], ["t"], 0, of=2, max_parallelism=GROUPS, read=read_url_range)


@pytest.mark.parametrize("altered", [False, True])
def test_files_of_earlier_versions_are_read_whole(tmp_path: Path, *, altered: bool) -> None:
    rows = owned(list(range(100)), 0, 1)
    path = tmp_path / "before.parquet"
    rows.write_parquet(path)
    data = path.read_bytes()
    part = FilePart(path=str(path), row_groups=(0,), rows=100, bytes=len(data), checksum=checksum(data))
    handle = StateHandle(
        node="t",
        state="s",
        kind="keyed",
        keys=("k",),
        subtask=0,
        first_group=0,
        last_group=11,
        columns={},
        files=(part,),
    )
    if altered:
        path.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        with pytest.raises(ExternalError, match="its checksum is not"):
            read_states([handle], ["t"], 1, of=3, max_parallelism=GROUPS, read=read_url_range)
        return
    (restored,) = read_states([handle], ["t"], 1, of=3, max_parallelism=GROUPS, read=read_url_range)["t"]["s"]
    assert restored.frame.equals(owned(list(range(100)), 1, 3))


@pytest.mark.parametrize("groups", [5, 64])
def test_state_of_another_max_parallelism_is_hashed_anew(large: list[StateHandle], groups: int) -> None:
    before = manifest(1).model_copy(update={"states": tuple(large), "max_parallelism": GROUPS})
    now = rehashed(before, groups)
    assert now.max_parallelism == groups
    found: list[int] = []
    for subtask in range(3):
        own = own_handles(now.states, subtask, parallelism={"t": 3}, max_parallelism=groups)
        (frames,) = read_states(own, ["t"], subtask, of=3, max_parallelism=groups, read=read_url_range)["t"].values()
        rows = pl.concat([each.frame for each in frames])
        owners = {subtask_of(int(group), 3, groups) for group in key_groups(rows, ["k"], groups)}
        assert owners == {subtask}
        found += rows["k"].to_list()
    assert sorted(found) == list(range(ROWS))


def relative(handles: list[StateHandle], folder: Path) -> list[StateHandle]:
    """The handles as checkpoints of the job with that folder name them."""
    return [
        handle.model_copy(
            update={
                "files": tuple(
                    part.model_copy(update={"path": part.path.removeprefix(f"{folder}/")}) for part in handle.files
                )
            }
        )
        for handle in handles
    ]


@pytest.mark.parametrize("is_claimed", [False, True])
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_row_groups_that_no_other_subtask_needs_are_named_again(
    large: list[StateHandle], after: int, *, is_claimed: bool
) -> None:
    """Of files in the job's folder, and of those of a claimed savepoint by their absolute paths."""
    folder = Path(large[0].files[0].path).parents[1]
    own = large if is_claimed else relative(large, folder)
    folders = OwnFolders("/elsewhere", str(folder)) if is_claimed else OwnFolders(str(folder))
    bytes_of = {part.path: part.bytes for handle in own for part in handle.files}
    named: list[tuple[str, int]] = []
    for subtask in range(after):
        restored = read_states(
            own, ["t"], subtask, of=after, max_parallelism=GROUPS, read=read_url_range, owned=folders
        )["t"]["sums"]
        rows = pl.concat([each.frame for each in restored])
        assert sorted(rows["k"]) == owned(list(range(ROWS)), subtask, after)["k"].to_list()
        for each in restored:
            if each.origin is None:
                continue
            file = each.origin.file
            assert (file.bytes, file.keys) == (bytes_of[file.path], ("k",))
            data = (folder / file.path).read_bytes()
            assert each.frame.equals(pl.concat(read_row_groups(data, each.origin.row_groups)))
            assert file.rows >= each.origin.rows == each.frame.height
            named += [(file.path, number) for number in each.origin.row_groups]
        whole = sum(each.frame.height for each in restored if each.origin is not None)
        # at most two row groups of a file are cut for a subtask
        assert rows.height - whole <= 2 * len(own) * ROW_GROUP_ROWS_MAX
        assert after in {3, 5} or whole == rows.height
    assert len(named) == len(set(named)), "each row group is named once"


def test_rows_of_others_and_rows_that_are_not_in_this_order_have_no_origin(large: list[StateHandle]) -> None:
    folder = Path(large[0].files[0].path).parents[1]
    before = manifest(1).model_copy(update={"states": tuple(relative(large, folder)), "max_parallelism": GROUPS})
    # a folder whose name begins like that of the claimed one is another one
    folders = OwnFolders(str(folder), str(folder)[:-1])
    for handles, groups in ((large, GROUPS), (list(rehashed(before, 64).states), 64)):
        restored = read_states(handles, ["t"], 0, of=1, max_parallelism=groups, read=read_url_range, owned=folders)[
            "t"
        ]["sums"]
        assert sum(each.frame.height for each in restored) == ROWS
        assert [each.origin for each in restored] == [None] * len(restored)


@pytest.mark.parametrize("kind", [StateKind.KEYED, StateKind.LIST, StateKind.UNION, StateKind.BROADCAST])
def test_rows_without_a_key_have_an_origin_if_all_of_a_chunk_are_restored(tmp_path: Path, kind: StateKind) -> None:
    chunks = (Chunk(1, pl.DataFrame({"k": [1, 2, 3]})), Chunk(2, pl.DataFrame({"k": [4, 5]})))
    handles = relative(written(tmp_path, 1, [[StateSnapshot("s", kind, (), chunks)]]), tmp_path)
    for after in (1, 2):
        restored = read_states(
            handles, ["t"], 0, of=after, max_parallelism=GROUPS, read=read_url_range, owned=OwnFolders(str(tmp_path))
        )["t"]["s"]
        if kind is StateKind.LIST and after == 2:
            assert [each.origin for each in restored] == [None, None]
            continue
        assert [each.frame["k"].to_list() for each in restored] == [[1, 2, 3], [4, 5]]
        assert [each.origin.row_groups for each in restored if each.origin is not None] == [(0,), (1,)]
        assert {each.origin.file.rows for each in restored if each.origin is not None} == {5}


def test_states_of_other_nodes_are_not_looked_at() -> None:
    handle = StateHandle(
        node="other", state="s", kind="keyed", keys=(), subtask=0, first_group=0, last_group=1, columns={}, files=()
    )
    assert read_states([handle], ["t"], 0, of=1, max_parallelism=2, read=read_url_range) == {}
