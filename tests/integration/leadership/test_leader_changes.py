"""Many leaders one after the other, each killed while a request of a user is under way.

A job that was answered with its id is in every later leader's list; a request whose answer was lost may have been
carried out or not, but never twice; the job that runs all the while writes each row once.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.client.http import Client
from headrace.client.models import FINAL_STATES, Trigger
from headrace.client.requests import SubmitRequest
from headrace.core.errors import HeadraceError
from headrace.leadership.opening import open_locator
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.session import COORDINATOR, kill
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.control.dispatching import pipeline
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

CHANGES = 50
SEED = 17
JOBS_MAX = 3
"""Jobs beside the flow: all of them have slots."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandbyCluster]:
    folder = tmp_path_factory.mktemp("l")
    with standby_cluster(folder, f"file://{folder}/shared", coordinators=3, workers=3) as running:
        yield running


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


@dataclass(slots=True)
class Asked:
    """What users asked, and what was answered."""

    accepted: dict[str, str] = field(default_factory=dict)
    """Name -> id of submissions that were answered."""
    unanswered: list[str] = field(default_factory=list)
    """Names of submissions whose answer was lost."""
    canceled: set[str] = field(default_factory=set)
    """Ids of jobs whose cancellation was answered."""
    savepoints: set[str] = field(default_factory=set)
    """Paths of savepoints that were answered."""
    broken: list[str] = field(default_factory=list)
    """Errors of operations that a leader had accepted."""


def slow(name: str) -> dict[str, Any]:
    """A pipeline that goes on, a row a second."""
    model = pipeline(name)
    model["sources"]["numbers"]["generator"]["rate"] = 1
    return model


class User:
    """One user's requests, beside the leaders that die."""

    def __init__(self, cluster: StandbyCluster, flow: Flow, asked: Asked, folder: Path) -> None:
        self._cluster, self._flow, self._asked, self._folder = cluster, flow, asked, folder

    def ask(self, number: int) -> None:
        """One request; an error is as good an answer as any."""
        token = self._cluster.token_file.read_text().strip()
        locator = open_locator(self._cluster.election, {})
        with Client("", token, answer_s=WAIT_SECONDS, locator=locator) as client:
            match number % 3:
                case 0:
                    self._submit(client, f"job-{number}")
                case 1:
                    self._cancel(client)
                case _:
                    self._take_savepoint(client, number)

    def _submit(self, client: Client, name: str) -> None:
        try:
            self._asked.accepted[name] = client.submit(SubmitRequest(pipeline=slow(name)))
        except HeadraceError:
            self._asked.unanswered.append(name)

    def _cancel(self, client: Client) -> None:
        if left := self._left():
            try:
                trigger = client.cancel(left[0])
            except HeadraceError:
                return
            # once it is answered, the next leader goes on with it
            self._wait(client, trigger)
            self._asked.canceled.add(left[0])

    def _left(self) -> list[str]:
        return [job for job in self._asked.accepted.values() if job not in self._asked.canceled]

    def cancel_beyond(self, jobs_max: int) -> None:
        """Cancels the oldest jobs while no leader dies."""
        client = self._cluster.client
        for job in self._left()[:-jobs_max]:
            if client.status(job).state not in FINAL_STATES:
                client.wait_trigger(client.cancel(job))
            self._asked.canceled.add(job)

    def _take_savepoint(self, client: Client, number: int) -> None:
        try:
            trigger = client.savepoint(self._flow.job, str(self._folder / f"s{number}"))
        except HeadraceError:
            return
        # once it is answered, the next leader knows it, and may have to say that it was not finished
        ended = self._wait(client, trigger, may_fail=True)
        if ended is not None:
            assert ended.path is not None
            self._asked.savepoints.add(ended.path)

    def _wait(self, client: Client, trigger: Trigger, *, may_fail: bool = False) -> Trigger | None:
        try:
            return client.wait_trigger(trigger)
        except HeadraceError as error:
            if not (may_fail and error.retry):
                self._asked.broken.append(f"{trigger.kind}: {error}")
            return None


@pytest.mark.full
def test_leaders_that_die_with_a_request_under_way(
    cluster: StandbyCluster, flow: Flow, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance, asked = random.Random(SEED), Asked()
    user = User(cluster, flow, asked, tmp_path_factory.mktemp("savepoints"))
    for number in range(CHANGES):
        leader, term = cluster.leader(), cluster.term()
        cluster.wait_state(flow.job, "RUNNING")
        asking = threading.Thread(target=user.ask, args=(number,), name=f"user {number}")
        asking.start()
        # at any moment of the request, or of what follows from it: nothing depends on how long this is
        asking.join(chance.uniform(0, 0.4 if number % 3 < 2 else 3.0))
        kill(leader)
        cluster.start_coordinator(f"c{number + 3}")
        cluster.wait_later_term(term)
        asking.join(WAIT_SECONDS)
        assert not asking.is_alive(), f"request {number} was not answered"
        _check(cluster, asked)
        user.cancel_beyond(JOBS_MAX)
        wait_until(lambda: len(cluster.processes(COORDINATOR)) == 3, "standbys")
    assert asked.accepted
    assert asked.canceled
    assert asked.savepoints
    assert all(Path(path, "manifest.json").is_file() for path in asked.savepoints)
    cluster.wait_state(flow.job, "RUNNING")
    flow.wait_checkpoint()
    flow.settle()
    for job in {each.job_id for each in cluster.client.jobs() if each.state not in FINAL_STATES} - {flow.job}:
        cluster.client.wait_trigger(cluster.client.cancel(job))


def _check(cluster: StandbyCluster, asked: Asked) -> None:
    """The leader of now knows what was answered, and has no job twice."""
    assert not asked.broken
    jobs = cluster.client.jobs()
    known = {each.job_id: each for each in jobs}
    assert set(asked.accepted.values()) <= known.keys(), "an accepted job is gone"
    names = [each.name for each in jobs]
    assert len(names) == len(set(names)), "a job is there twice"
    assert set(names) - {"flow"} <= asked.accepted.keys() | set(asked.unanswered)
    assert all(known[job].state == "CANCELED" for job in asked.canceled if job in known)
