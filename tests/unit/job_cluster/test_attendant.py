"""What an attendant waits for, with a part whose cluster is a table of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from headrace.client.http import Client
from headrace.core.errors import ExternalError
from headrace.job_cluster.attendant import Attendant

AWAY = "nobody answers"
CODE = "exit code"
HELD = "held"
"""A state of no job: the cluster is held."""


@dataclass
class TablePart:
    """Each request for the leader sees the next state of the cluster: states by job, or `AWAY`. The last one stays."""

    seen: list[Mapping[str, str] | str]
    has_others: bool = False
    canceled: list[str] = field(default_factory=list)
    ended_done: list[bool] = field(default_factory=list)

    def keep_alive(self) -> None:
        """Nothing dies."""

    def coordinator(self) -> Client:
        return self.leader()

    def leader(self) -> Client:
        now = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        if isinstance(now, str):
            raise ExternalError(now)
        return cast("Client", TableClient(now, self.canceled))

    def environment(self) -> Mapping[str, str]:
        return {}

    def stop(self, *, is_done: bool) -> None:
        self.ended_done.append(is_done)


@dataclass
class TableClient:
    states: Mapping[str, str]
    canceled: list[str]

    def __enter__(self) -> TableClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def status(self, job: str) -> Any:
        return SimpleNamespace(state=self.states[job])

    def jobs(self) -> Any:
        return [SimpleNamespace(job_id=job, state=state) for job, state in self.states.items() if job != HELD]

    def cluster(self) -> Any:
        code = int(self.states[CODE]) if CODE in self.states else None
        return SimpleNamespace(held=HELD in self.states, application_exit_code=code)

    def health(self) -> Any:
        return SimpleNamespace(status="standby")

    def cancel(self, job: str) -> str:
        self.canceled.append(job)
        return job

    def wait_trigger(self, trigger: str, *, timeout_s: float) -> None:
        pass


def attend(*seen: Mapping[str, str] | str) -> tuple[str, TablePart]:
    part = TablePart(list(seen))
    return Attendant(part, linger_s=0.0).job("a"), part


def test_a_job_that_ends_ends_its_part() -> None:
    state, part = attend({"a": "RUNNING"}, {"a": "FINISHED"})
    assert (state, part.ended_done, part.canceled) == ("FINISHED", [True], [])


def test_a_job_that_was_upgraded_is_followed_by_the_next_one() -> None:
    stopped = {"a": "FINISHED"}
    state, part = attend(stopped, {"b": "RUNNING", **stopped}, {"b": "RUNNING", **stopped}, {"b": "FAILED", **stopped})
    assert (state, part.ended_done) == ("FAILED", [True])


def test_a_cluster_that_is_held_waits_for_the_next_job() -> None:
    held = {"a": "FINISHED", HELD: ""}
    state, part = attend(held, held, held, {"b": "RUNNING", **held}, {"b": "FINISHED"})
    assert (state, part.ended_done) == ("FINISHED", [True])


def test_a_coordinator_that_is_away_behind_the_end_is_waited_for() -> None:
    stopped = {"a": "FINISHED"}
    state, part = attend(stopped, AWAY, AWAY, {"b": "RUNNING", **stopped}, {"b": "CANCELED", **stopped})
    assert (state, part.ended_done) == ("CANCELED", [True])


def test_a_part_without_the_program_ends_when_the_program_has_ended() -> None:
    part = TablePart([AWAY, {}, {}, {}, {CODE: "3"}])
    assert Attendant(part, linger_s=0.0).application() == 3
    assert part.ended_done == [True]
    part = TablePart([{}])
    attendant = Attendant(part, linger_s=0.0)
    attendant.ask_to_end()
    assert attendant.application() is None
    assert part.ended_done == [False]


def test_a_part_that_is_asked_to_end_cancels_its_job_unless_it_goes_on_elsewhere() -> None:
    for has_others, canceled in ((False, ["a"]), (True, [])):
        part = TablePart([{"a": "RUNNING"}], has_others)
        attendant = Attendant(part, linger_s=0.0)
        attendant.ask_to_end()
        assert attendant.job("a") == ""
        assert (part.canceled, part.ended_done) == (canceled, [False])
