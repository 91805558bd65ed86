"""A job's origin: what of a savepoint a pipeline continues with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.manifest import StateHandle
from headrace.core.errors import UserError
from headrace.execution.origin import OriginWish, find_origin, origin_again, rehashed
from headrace.execution.planning import JobPlans
from support.storage.checkpoints import handle_of, manifest

PIPELINE: dict[str, Any] = {
    "name": "flights",
    "sources": {"flights": {"generator": {"columns": {"k": {"sequence": {}}}}, "schema": {"k": "int64"}}},
    "steps": {"hourly": {"from": "flights", "key_by": ["k"], "aggregate": {"n": "count(*)"}}},
    "sinks": {"delays": {"from": "hourly", "print": {}, "format": "json"}},
}
CHANGED = JobPlans(PIPELINE | {"max_parallelism": 64})


def groups(state: StateHandle) -> tuple[int, int]:
    return state.first_group, state.last_group


@pytest.fixture
def savepoint(tmp_path: Path) -> str:
    """A savepoint with max_parallelism 128, whose keyed state has no rows."""
    states = tuple(
        handle_of(kind, subtask, 2, 128, keys=keys).model_copy(
            update={"state": state, "files": (), "columns": {"k": "Int64"} if keys else {}}
        )
        for state, kind, keys in (("groups", "keyed", ("k",)), ("time", "union", ()))
        for subtask in range(2)
    )
    saved = manifest(4).model_copy(update={"kind": "savepoint", "states": states})
    (tmp_path / "manifest.json").write_text(saved.model_dump_json())
    return str(tmp_path)


def test_another_max_parallelism_is_refused_unless_it_is_wished(savepoint: str) -> None:
    for wish in (
        OriginWish(savepoint),
        OriginWish(savepoint, allow_dropped_state=True),
        OriginWish(savepoint, max_parallelism=32),
    ):
        with pytest.raises(UserError, match="was written with max_parallelism 128, and the pipeline has 64") as raised:
            find_origin(wish, CHANGED, 1, 0)
        assert "--max-parallelism 64" in str(raised.value.remedy)


def test_state_of_another_max_parallelism_may_hold_every_key_group(savepoint: str) -> None:
    found = find_origin(OriginWish(savepoint, max_parallelism=64), CHANGED, 1, 0).manifest
    assert found.max_parallelism == 64
    assert [groups(state) for state in found.states] == [(0, 63), (0, 63), (0, 63), (64, 127)]
    assert origin_again(savepoint, {}, CHANGED, 1).manifest == found


def test_the_same_max_parallelism_changes_nothing(savepoint: str) -> None:
    plans = JobPlans(PIPELINE)
    found = find_origin(OriginWish(savepoint, max_parallelism=128), plans, 1, 0).manifest
    assert found == find_origin(OriginWish(savepoint), plans, 1, 0).manifest
    assert rehashed(found, 128) is found
