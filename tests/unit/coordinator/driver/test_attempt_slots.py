"""The slots of an attempt: what each one is sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.coordinator.driver.attempt_slots import AttemptSlots
from headrace.coordinator.job import effects as do
from headrace.execution.plan_facts import PlanFacts
from headrace.rpc.deployment import Deployment
from headrace.rpc.messages import Deploy
from support.storage.checkpoints import handle_of, manifest, part


class Fleet:
    """Keeps the deployments that are sent."""

    def __init__(self) -> None:
        self.sent: dict[str, Deployment] = {}

    def send(self, slot: Any, message: Deploy) -> None:
        self.sent[slot.slot] = Deployment.model_validate_json(message.deployment)


@pytest.mark.parametrize(("reused", "folder"), [(True, ""), (False, "/storage/job/")])
def test_each_slot_is_sent_its_own_handles_with_paths_by_which_it_names_files_again(
    *, reused: bool, folder: str
) -> None:
    facts = PlanFacts("plan", 3, 128, {}, {"hourly": "aggregate"}, {"hourly": 3})
    config = SimpleNamespace(
        job="job", plan=lambda _: facts, checkpoint=SimpleNamespace(mode="exactly-once"), keeps_time_open=False
    )
    plans = SimpleNamespace(file_form=lambda _: {})
    given = {"storage": "/storage/job", "claimed": "/savepoint", "floors": (), "code": (), "python_path": ()}
    setup: Any = SimpleNamespace(config=config, plans=plans, **given)
    fleet: Any = Fleet()
    slots = AttemptSlots(setup, fleet, lambda _: None, lambda: True)
    address = SimpleNamespace(host="h", port=1, unix_path="")
    granted: Any = tuple(
        SimpleNamespace(slot=f"slot {index}", worker="w", info=SimpleNamespace(address=address)) for index in range(3)
    )
    slots.granted(2, granted)
    files = ("state/a.parquet", "state/b.parquet")
    handles = tuple(
        handle_of("keyed", number, 2, 128).model_copy(update={"files": (part(path),)})
        for number, path in enumerate(files)
    )
    before = manifest(7).model_copy(update={"states": handles})
    slots.deploy(do.DeploySlots(2, 3, before, own=True, reused=reused))
    assert {slot: [handle.subtask for handle in sent.restore] for slot, sent in fleet.sent.items()} == {
        "slot 0": [0],
        "slot 1": [0, 1],
        "slot 2": [1],
    }
    paths = {part.path for sent in fleet.sent.values() for handle in sent.restore for part in handle.files}
    assert paths == {f"{folder}{path}" for path in files}
    assert {sent.claimed for sent in fleet.sent.values()} == {"/savepoint" if reused else ""}
