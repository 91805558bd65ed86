"""A subtask's share of restored state: every row of every state reaches those that it belongs to, once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, StateHandle
from headrace.checkpoint.paths import joined
from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.opening import read_url
from headrace.core.errors import ExternalError
from headrace.core.keygroups import key_groups, subtask_of
from headrace.rpc.messages import Acked, FromSlot
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot
from headrace.worker.control import SubtaskSnapshot
from headrace.worker.state.restore import restored_states
from headrace.worker.state.snapshot_documents import UploadPlan
from headrace.worker.state.uploader import Uploader
from support.processes.running import wait_until
from support.storage.uploads import uploading
from support.suite.properties import weighted

GROUPS = 12


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
        restored = restored_states(handles, ["t"], subtask, of=after, max_parallelism=GROUPS, read=read_url)
        assert set(restored) == {"t"}
        for state, frames in restored["t"].items():
            found.setdefault(state, []).append(sorted(value for frame in frames for value in frame["k"].to_list()))
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
        restored_states(handles, ["t"], 0, of=1, max_parallelism=GROUPS, read=read_url)
    assert str(path) in str(raised.value)
    path.unlink()
    with pytest.raises(ExternalError):
        restored_states(handles, ["t"], 0, of=1, max_parallelism=GROUPS, read=read_url)


def test_states_of_other_nodes_are_not_looked_at() -> None:
    handle = StateHandle(
        node="other", state="s", kind="keyed", keys=(), subtask=0, first_group=0, last_group=1, columns={}, files=()
    )
    assert restored_states([handle], ["t"], 0, of=1, max_parallelism=2, read=lambda _: b"") == {}
