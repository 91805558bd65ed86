"""The slots of an attempt: what each one is sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.coordinator.driver.attempt_slots import AttemptSlots
from headrace.coordinator.job import effects as do
from headrace.execution.plan_facts import PlanFacts
from headrace.rpc.deployment import Deployment
from headrace.rpc.messages import Deploy
from support.storage.checkpoints import handle_of, manifest


class Fleet:
    """Keeps the deployments that are sent."""

    def __init__(self) -> None:
        self.sent: dict[str, Deployment] = {}

    def send(self, slot: Any, message: Deploy) -> None:
        self.sent[slot.slot] = Deployment.model_validate_json(message.deployment)


def test_each_slot_is_sent_its_own_handles() -> None:
    facts = PlanFacts("plan", 3, 128, {}, {"hourly": "aggregate"}, {"hourly": 3})
    config = SimpleNamespace(
        job="job", plan=lambda _: facts, checkpoint=SimpleNamespace(mode="exactly-once"), keeps_time_open=False
    )
    plans = SimpleNamespace(file_form=lambda _: {})
    setup: Any = SimpleNamespace(config=config, plans=plans, storage="/storage/job", floors=(), code=(), python_path=())
    fleet: Any = Fleet()
    slots = AttemptSlots(setup, fleet, lambda _: None, lambda: True)
    address = SimpleNamespace(host="h", port=1, unix_path="")
    granted: Any = tuple(
        SimpleNamespace(slot=f"slot {index}", worker="w", info=SimpleNamespace(address=address)) for index in range(3)
    )
    slots.granted(2, granted)
    before = manifest(7).model_copy(update={"states": tuple(handle_of("keyed", each, 2, 128) for each in range(2))})
    slots.deploy(do.DeploySlots(2, 3, before, own=True))
    assert {slot: [handle.subtask for handle in sent.restore] for slot, sent in fleet.sent.items()} == {
        "slot 0": [0],
        "slot 1": [0, 1],
        "slot 2": [1],
    }
    sent_files = {part for sent in fleet.sent.values() for handle in sent.restore for part in handle.files}
    # of a checkpoint of the job itself they are relative, which lets the slot name them again
    assert sent_files == {part for handle in before.states for part in handle.files}
