"""A slot is sent the handles that can hold its rows, and no others."""

from __future__ import annotations

import pytest

from headrace.checkpoint.manifest import StateHandle
from headrace.checkpoint.own_handles import can_hold, own_handles
from headrace.rpc.deployment import Deployment
from support.storage.checkpoints import handle_of

GROUPS = 128


def subtasks(handles: tuple[StateHandle, ...]) -> list[int]:
    return [handle.subtask for handle in handles]


def test_keyed_state_goes_to_the_owners_of_its_key_groups() -> None:
    before = [handle_of("keyed", subtask, 2, GROUPS) for subtask in range(2)]
    found = [
        subtasks(own_handles(before, slot, parallelism={"hourly": 3}, max_parallelism=GROUPS)) for slot in range(4)
    ]
    assert found == [[0], [0, 1], [1], []]


@pytest.mark.parametrize("kind", ["list", "union", "broadcast"])
def test_other_state_goes_to_every_subtask(kind: str) -> None:
    before = [handle_of(kind, subtask, 2, GROUPS, keys=()) for subtask in range(2)]
    found = [
        subtasks(own_handles(before, slot, parallelism={"hourly": 2}, max_parallelism=GROUPS)) for slot in range(3)
    ]
    assert found == [[0, 1], [0, 1], []]


def test_keyed_state_without_keys_goes_to_the_first_subtask() -> None:
    handle = handle_of("keyed", 0, 1, GROUPS, keys=())
    assert [can_hold(handle, subtask, of=3, max_parallelism=GROUPS) for subtask in range(3)] == [True, False, False]


def test_nodes_of_other_slots_and_dropped_nodes_are_left_out() -> None:
    handle = handle_of("union", 0, 1, GROUPS)
    assert own_handles([handle], 0, parallelism={"other": 3}, max_parallelism=GROUPS) == ()
    assert own_handles([handle], 1, parallelism={"hourly": 1}, max_parallelism=GROUPS) == ()


def test_a_deployment_grows_with_the_state_of_its_slot_not_of_the_job() -> None:
    handles = tuple(handle_of("keyed", subtask, 16, GROUPS, files=50) for subtask in range(16))

    def message_bytes(restore: tuple[StateHandle, ...]) -> int:
        deployment = Deployment(pipeline={}, plan_hash="", slot=0, slots=16, peers=(), storage="/job", restore=restore)
        return len(deployment.model_dump_json())

    empty, whole = message_bytes(()), message_bytes(handles)
    for slot in range(16):
        own = own_handles(handles, slot, parallelism={"hourly": 16}, max_parallelism=GROUPS)
        assert message_bytes(own) - empty <= 1.01 * (whole - empty) / 16
