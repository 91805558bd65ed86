"""Provisioning: as many workers as jobs need, replaced when they are lost, released when nobody needs them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.coordinator.provisioning.provisioning import (
    ADOPTED_MS_MAX,
    PAUSE_MS_MAX,
    RELEASE_AGAIN_MS,
    RETURN_MS,
    SPARED_MS,
    STARTS_MAX,
    DrainWorker,
    DropWorker,
    EndedWorker,
    Provisioning,
    ProvisioningEffect,
    ReleaseWorker,
    StartWorker,
)
from headrace.coordinator.provisioning.slot_pool import Demand, PooledWorker
from headrace.core.errors import UserError
from headrace.resources.driver import WorkerPhase, WorkerReport
from support.suite.properties import weighted

PENDING, RUNNING, ENDED = WorkerPhase.PENDING, WorkerPhase.RUNNING, WorkerPhase.ENDED
CONFIG = ProvisioningConfig(slots=2, workers_max=5, idle_ms=10_000, join_ms=60_000)


class World:
    """A system that lists what was started, and a pool of what has joined, both changed by hand."""

    def __init__(self, config: ProvisioningConfig = CONFIG, prefix: str = "w1-") -> None:
        self.config = config
        self.provisioning = Provisioning(config, prefix)
        self.listed: dict[str, WorkerReport] = {}
        self.joined: dict[str, PooledWorker] = {}
        self.leaving: dict[str, PooledWorker] = {}
        self.slots = 0
        self.now_ms = 0

    def decide(self, after_ms: int = 0) -> list[ProvisioningEffect]:
        """One decision, whose effects are done as a system does them: at once, released workers are gone."""
        self.now_ms += after_ms
        demand = Demand(self.slots, tuple(self.joined.values()), tuple(self.leaving.values()))
        effects = list(self.provisioning.decide(self.listed.values(), demand, self.now_ms))
        for effect in effects:
            match effect:
                case StartWorker(worker):
                    self.listed[worker] = WorkerReport(worker, PENDING)
                case ReleaseWorker(worker):
                    self.listed.pop(worker, None)
                    self.joined.pop(worker, None)
                    self.leaving.pop(worker, None)
                case DropWorker(worker):
                    self.joined.pop(worker, None)
                case DrainWorker(worker):
                    self.leaving[worker] = self.joined.pop(worker)
        return effects

    def run(self, worker: str) -> None:
        self.listed[worker] = WorkerReport(worker, RUNNING)

    def join(self, worker: str, *, idle: bool = False) -> None:
        self.run(worker)
        self.joined[worker] = PooledWorker(worker, self.config.slots, idle)

    def started(self, slots: int) -> World:
        """With workers for so many slots, all in use."""
        self.slots = slots
        for effect in self.decide():
            assert isinstance(effect, StartWorker)
            self.join(effect.worker)
        assert not self.decide()
        assert not self.decide(SPARED_MS)
        return self


@pytest.mark.parametrize(("slots", "workers"), [(0, 0), (1, 1), (2, 1), (3, 2), (10, 5), (99, 5)])
def test_as_many_workers_as_the_slots_need(slots: int, workers: int) -> None:
    world = World()
    world.slots = slots
    assert world.decide() == [StartWorker(f"w1-{number + 1}") for number in range(workers)]
    assert not world.decide(), "those that start count"


def test_some_workers_stay_without_a_job() -> None:
    world = World(ProvisioningConfig(slots=2, workers_min=2, workers_max=3, idle_ms=0))
    assert world.decide() == [StartWorker("w1-1"), StartWorker("w1-2")]
    for worker in list(world.listed):
        world.join(worker, idle=True)
    assert not world.decide(1_000_000)


def test_workers_start_in_portions() -> None:
    world = World(ProvisioningConfig(slots=1, workers_max=100))
    world.slots = 40
    assert [len(world.decide()) for _ in range(4)] == [STARTS_MAX, STARTS_MAX, 40 - 2 * STARTS_MAX, 0]


def test_workers_that_were_started_by_hand_count_and_stay() -> None:
    world = World()
    world.joined["mine"] = PooledWorker("mine", 3, idle=True)
    world.slots = 4
    assert world.decide() == [StartWorker("w1-1")]
    world.join("w1-1", idle=True)
    world.slots = 0
    assert not world.decide(SPARED_MS)
    assert world.decide(CONFIG.idle_ms) == [ReleaseWorker("w1-1")]
    assert not world.decide(CONFIG.idle_ms)


def test_a_worker_is_released_when_it_has_been_idle_for_long_and_another_one_suffices() -> None:
    world = World().started(4)
    world.slots = 2
    world.join("w1-1", idle=True)
    assert not world.decide()
    assert not world.decide(CONFIG.idle_ms - 1)
    assert world.decide(1) == [ReleaseWorker("w1-1")]
    world.join("w1-2", idle=True)
    assert not world.decide(10 * CONFIG.idle_ms), "two slots are still wanted"


def test_early_in_a_term_no_worker_is_idle() -> None:
    """Jobs that are resumed read their journals before they request slots."""
    world = World(ProvisioningConfig(slots=2, idle_ms=0), prefix="w7-")
    world.join("w1-1", idle=True)
    assert not world.decide()
    assert not world.decide(SPARED_MS - 1)
    assert world.decide(1) == [ReleaseWorker("w1-1")]


def test_a_worker_that_is_needed_again_is_not_released() -> None:
    world = World().started(2)
    world.slots = 0
    world.join("w1-1", idle=True)
    assert not world.decide()
    assert not world.decide(CONFIG.idle_ms - 1)
    world.slots = 1
    assert not world.decide(1)
    world.slots = 0
    assert not world.decide()
    assert not world.decide(CONFIG.idle_ms - 1)
    assert world.decide(1) == [ReleaseWorker("w1-1")]


def test_what_does_not_run_yet_is_released_first() -> None:
    world = World().started(2)
    world.slots = 6
    assert len(world.decide()) == 2
    world.slots = 2
    world.join("w1-1", idle=True)
    assert not world.decide()
    assert world.decide(CONFIG.idle_ms) == [ReleaseWorker("w1-2"), ReleaseWorker("w1-3")]


def test_a_lost_worker_is_replaced_unless_it_comes_back_soon() -> None:
    world = World().started(4)
    lost = world.joined.pop("w1-2")
    assert not world.decide()
    assert not world.decide(RETURN_MS - 1)
    world.joined["w1-2"] = lost
    assert not world.decide(1)
    del world.joined["w1-2"]
    assert not world.decide()
    # its node may be gone: the system would list it for minutes
    assert world.decide(RETURN_MS) == [ReleaseWorker("w1-2"), StartWorker("w1-3")]


def test_a_worker_that_has_ended_is_dropped_and_replaced_at_once() -> None:
    world = World().started(4)
    world.listed["w1-1"] = WorkerReport("w1-1", ENDED, "OOMKilled")
    assert world.decide() == [DropWorker("w1-1", "OOMKilled"), ReleaseWorker("w1-1"), StartWorker("w1-3")]


def test_a_worker_that_somebody_deleted_is_replaced_when_its_connection_ends() -> None:
    world = World().started(2)
    del world.listed["w1-1"]
    assert not world.decide(), "its process may still run"
    del world.joined["w1-1"]
    assert world.decide() == [StartWorker("w1-2")]


def test_starts_that_fail_are_repeated_ever_more_slowly() -> None:
    world = World()
    world.slots = 1
    pauses_ms = []
    for _ in range(9):
        waited_ms = 0
        while not (effects := world.decide(500)):
            waited_ms += 500
        (start,) = effects
        assert isinstance(start, StartWorker)
        del world.listed[start.worker]
        world.provisioning.start_failed(start.worker, "quota exceeded", world.now_ms)
        pauses_ms.append(waited_ms)
    assert pauses_ms[:3] == [0, 500, 1_500]
    assert pauses_ms[-1] == PAUSE_MS_MAX - 500
    assert world.provisioning.trouble == "quota exceeded"


def test_a_worker_that_ends_before_it_joins_counts_as_a_failed_start() -> None:
    world = World()
    world.slots = 1
    world.decide()
    world.listed["w1-1"] = WorkerReport("w1-1", ENDED, "exit code 1")
    assert world.decide() == [ReleaseWorker("w1-1")]
    assert world.provisioning.trouble == "worker w1-1: exit code 1"
    assert world.decide(1_000) == [StartWorker("w1-2")]
    world.join("w1-2")
    world.decide()
    assert not world.provisioning.trouble, "one has joined"


def test_a_worker_that_vanishes_before_it_joins_counts_as_a_failed_start() -> None:
    world = World()
    world.slots = 1
    world.decide()
    del world.listed["w1-1"]
    assert not world.decide()
    assert "disappeared" in world.provisioning.trouble
    assert world.decide(1_000) == [StartWorker("w1-2")]


def test_a_pending_worker_is_waited_for_and_says_why() -> None:
    world = World()
    world.slots = 1
    world.decide()
    world.listed["w1-1"] = WorkerReport("w1-1", PENDING, "0/1 nodes are available")
    assert not world.decide(10 * CONFIG.join_ms)
    (expected,) = world.provisioning.expected
    assert (expected.worker, expected.reason) == ("w1-1", "0/1 nodes are available")
    assert not world.provisioning.is_settled


def test_a_worker_that_runs_and_does_not_join_is_replaced() -> None:
    world = World()
    world.slots = 1
    world.decide()
    world.run("w1-1")
    assert not world.decide()
    assert not world.decide(CONFIG.join_ms - 1)
    assert world.decide(1) == [ReleaseWorker("w1-1")]
    assert "did not join within 60 s" in world.provisioning.trouble


def test_the_next_coordinator_takes_the_workers_over() -> None:
    earlier = World().started(4)
    world = World(prefix="w7-")
    world.listed = dict(earlier.listed)
    world.slots = 4
    assert not world.decide()
    world.join("w1-2")
    # the host of the other one went down together with the earlier coordinator
    assert not world.decide(ADOPTED_MS_MAX - 1)
    assert world.decide(1) == [ReleaseWorker("w1-1")]
    assert world.decide(1_000) == [StartWorker("w7-1")]


def test_a_release_is_repeated_until_nothing_is_listed() -> None:
    world = World().started(2)
    report = WorkerReport("w1-1", RUNNING)
    world.joined.clear()
    assert not world.decide()
    assert ReleaseWorker("w1-1") in world.decide(RETURN_MS)
    world.listed["w1-1"] = report  # its host does not answer
    assert not world.decide(RELEASE_AGAIN_MS - 1)
    assert world.decide(1) == [ReleaseWorker("w1-1")]


def test_sizes_that_do_not_fit_are_refused() -> None:
    for wrong in ({"slots": 0}, {"slots": 1, "workers_min": 3, "workers_max": 2}, {"slots": 1, "workers_max": 0}):
        with pytest.raises(UserError):
            ProvisioningConfig(**wrong)


@weighted(2.0)
@given(st.data())
def test_whatever_happens_the_limits_hold_and_calm_brings_what_is_wanted(data: st.DataObject) -> None:
    """Random demand, deaths, losses and delays; then a system in which everything works."""
    config = ProvisioningConfig(slots=2, workers_min=1, workers_max=4, idle_ms=3_000, join_ms=9_000)
    world = World(config)
    used: set[str] = set()
    for _ in range(data.draw(st.integers(1, 30))):
        world.slots = data.draw(st.integers(0, 12))
        for worker in list(world.listed):
            match data.draw(st.sampled_from(["stay", "run", "join", "idle", "end", "lose", "delete"])):
                case "run":
                    world.run(worker)
                case "join":
                    world.join(worker)
                case "idle":
                    world.join(worker, idle=True)
                case "end":
                    world.listed[worker] = WorkerReport(worker, ENDED)
                case "lose":
                    world.joined.pop(worker, None)
                case "delete":
                    del world.listed[worker]
                    world.joined.pop(worker, None)
        for effect in world.decide(data.draw(st.integers(0, 4_000))):
            if isinstance(effect, StartWorker):
                assert effect.worker not in used, "an id is used once"
                used.add(effect.worker)
        assert len(world.listed) <= config.workers_max
    world.slots = data.draw(st.integers(0, 12))
    wanted = min(max(-(-world.slots // config.slots), config.workers_min), config.workers_max)
    for _ in range(300):
        for worker in list(world.listed):
            # as many as are needed are in use
            world.join(worker, idle=sorted(world.listed).index(worker) >= wanted)
        world.decide(1_000)
    assert len(world.listed) == wanted
    assert world.provisioning.is_settled


@pytest.mark.parametrize("order", ["reason first", "connection first", "given up first"])
def test_the_reason_of_an_end_is_kept_whenever_the_system_names_it(order: str) -> None:
    world = World().started(2)
    reason = "container c: exit code -104"
    if order != "reason first":
        del world.joined["w1-1"]
        assert not world.decide()
    if order == "given up first":
        world.decide(RETURN_MS)
        # the system has accepted the release, and lists the worker until it is gone
    world.listed["w1-1"] = WorkerReport("w1-1", ENDED, reason)
    world.decide()
    assert world.provisioning.ended == (EndedWorker("w1-1", reason),)
    world.decide(RELEASE_AGAIN_MS)
    assert len(world.provisioning.ended) == 1


def test_the_end_of_a_worker_that_was_released_as_idle_is_no_news() -> None:
    world = World().started(2)
    world.slots = 0
    world.join("w1-1", idle=True)
    world.decide()
    assert ReleaseWorker("w1-1") in world.decide(CONFIG.idle_ms)
    world.listed["w1-1"] = WorkerReport("w1-1", ENDED, "exit code 143")
    world.decide()
    assert world.provisioning.ended == ()


def test_a_worker_whose_node_is_leaving_is_replaced_before_it_is_released() -> None:
    world = World().started(4)
    world.listed["w1-1"] = WorkerReport("w1-1", RUNNING, is_leaving=True)
    assert world.decide() == [DrainWorker("w1-1"), StartWorker("w1-3")]
    world.join("w1-3", idle=True)
    assert not world.decide(RETURN_MS), "its jobs take a checkpoint before they move"
    assert not world.provisioning.is_settled
    world.leaving["w1-1"] = PooledWorker("w1-1", CONFIG.slots, idle=True)
    assert world.decide() == [ReleaseWorker("w1-1")]
    world.join("w1-3")
    assert not world.decide()
    assert world.provisioning.ended == ()
    assert world.provisioning.is_settled


def test_a_leaving_worker_that_has_no_job_is_released_at_once() -> None:
    world = World(ProvisioningConfig(slots=2, workers_min=1))
    world.decide()
    world.join("w1-1", idle=True)
    world.listed["w1-1"] = WorkerReport("w1-1", RUNNING, is_leaving=True)
    assert world.decide() == [DrainWorker("w1-1"), StartWorker("w1-2")]
    assert world.decide() == [ReleaseWorker("w1-1")]


def test_a_leaving_worker_that_ends_is_an_end_like_others() -> None:
    world = World().started(2)
    world.listed["w1-1"] = WorkerReport("w1-1", RUNNING, is_leaving=True)
    world.decide()
    world.leaving.clear()
    world.listed["w1-1"] = WorkerReport("w1-1", ENDED, "exit code -100: on a lost node", is_leaving=True)
    assert ReleaseWorker("w1-1") in world.decide()
    assert world.provisioning.ended == (EndedWorker("w1-1", "exit code -100: on a lost node"),)
