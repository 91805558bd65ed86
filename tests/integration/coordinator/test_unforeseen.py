"""Exceptions that nobody foresaw, in every effect and in the job's master: each ends in an event, and nobody waits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.job import effects as do
from headrace.coordinator.job import events as on
from headrace.coordinator.job.job_state import JobState
from headrace.rpc.codec import from_slot_bytes
from headrace.rpc.messages import Failed, Failure
from support.control.driven_job import JOB, SLOT, Driven, PromptHost, driven, run

INJECTED = "ValueError: injected"
NOT_PERFORMED = {do.Alarm, do.CloseHost}
"""An alarm needs commits that wait for minutes; closing the host is nothing to do."""
SILENT = {do.Prune, do.Discover, do.Sweep, do.RecordException, do.Entered}
"""They promise no event: the job goes on, and the log has the failure."""
ALONE = {do.Answer, do.Ended}
"""Nothing comes after them that could make up for them; see the tests of callbacks that raise."""


class FaultyDriver(JobDriver):
    """Raises as an effect of the kind is to be performed, the first time."""

    breaks: type | None = None
    performed: set[type] | None = None

    def _do(self, effect: do.Effect) -> None:
        if self.performed is not None:
            self.performed.add(type(effect))
        if type(effect) is self.breaks:
            self.breaks = None
            raise ValueError("injected")
        super()._do(effect)


async def is_running(made: Driven) -> None:
    await made.until(lambda: made.driver.machine.state is JobState.RUNNING, "RUNNING")


async def insist(made: Driven, ask: Callable[[str], on.Asked]) -> None:
    """Asks until it is done: a failure is an answer, too."""
    for number in range(10):
        await made.until(
            lambda: made.driver.over.is_set() or made.driver.machine.state is JobState.RUNNING, "RUNNING, or the end"
        )
        event = ask(f"{ask.__name__}-{number}")
        made.driver.post(event)
        await made.until(partial(made.answers.__contains__, event.request), f"an answer to {event.request}")
        if made.answers[event.request] is None or made.driver.over.is_set():
            return
    raise AssertionError(made.answers)


async def live(made: Driven, folder: Path) -> None:
    """A life with a lost slot, a savepoint and a stop."""
    made.fleet.holder, made.fleet.prompt = made.driver.attempt_slots, True
    made.fleet.left.set()
    await is_running(made)
    attempt = made.driver.machine.job.attempt
    failed = Failed(JOB, attempt, Failure("lost", "external", retry=True))
    made.driver.attempt_slots.slot_message(SLOT.slot, from_slot_bytes(failed))
    await made.until(lambda: made.driver.machine.job.attempt > attempt, "another attempt")

    def savepoint(request: str) -> on.Asked:
        return on.SavepointAsked(request, str(folder / request))

    def stop(request: str) -> on.Asked:
        return on.StopAsked(request, str(folder / request))

    await insist(made, savepoint)
    await insist(made, stop)
    await made.driver.closed()


def causes(made: Driven) -> list[str]:
    return [each.failure.message for each in made.driver.history.exceptions]


def host_of(made: Driven, *breaks: str) -> PromptHost:
    host = PromptHost(made.driver, set(breaks))
    made.driver._host = host  # type: ignore[assignment]
    return host


@pytest.mark.parametrize("effect", [each for each in get_args(do.Effect) if each not in NOT_PERFORMED | ALONE])
def test_an_effect_that_raises_fails_an_attempt_and_nothing_else(effect: type, tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, kind=FaultyDriver) as made:
            host_of(made)
            assert isinstance(made.driver, FaultyDriver)
            made.driver.breaks = effect
            await live(made, tmp_path)
            assert made.driver.breaks is None, "the effect was never performed"
            assert [each.state for each in made.ended] == [JobState.FINISHED]
            # what releases slots is kept by the event that follows; all other promises fail something that is shown
            if effect not in SILENT | {do.ReleaseSlots}:
                assert any(INJECTED in cause for cause in (*causes(made), *failures(made))), effect

    run(test)


def failures(made: Driven) -> list[str]:
    return [answer.message for answer in made.answers.values() if answer is not None]


def test_the_life_above_performs_all_effects(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, kind=FaultyDriver) as made:
            host_of(made)
            assert isinstance(made.driver, FaultyDriver)
            performed: set[type] = set()
            made.driver.performed = performed
            await live(made, tmp_path)
            assert set(get_args(do.Effect)) - performed <= NOT_PERFORMED

    run(test)


@pytest.mark.parametrize("question", ["open", "discover", "describe", "commit", "fence", "sweep", "close"])
def test_a_connector_host_that_raises_what_nobody_foresaw(question: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            host = host_of(made, question)
            await live(made, tmp_path)
            assert not host.breaks
            assert [each.state for each in made.ended] == [JobState.FINISHED]

    run(test)


@pytest.mark.parametrize("callback", ["_load", "_on_loaded", "_on_put", "_on_saved", "_prune", "release"])
def test_a_callback_that_raises(callback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            host_of(made)
            owner = next(
                part
                for part in (made.driver, made.driver._journal, made.driver.attempt_slots)
                if hasattr(part, callback)
            )
            original: Any = getattr(owner, callback)
            left = [True]

            def once(*arguments: Any, **named: Any) -> Any:
                if left:
                    left.clear()
                    raise ValueError("injected")
                return original(*arguments, **named)

            monkeypatch.setattr(owner, callback, once)
            await live(made, tmp_path)
            assert not left
            assert [each.state for each in made.ended] == [JobState.FINISHED]

    run(test)


def test_a_watch_that_raises_stops_no_job(tmp_path: Path) -> None:
    def raises(*_: object) -> None:
        raise ValueError("injected")

    async def test() -> None:
        async with driven(tmp_path) as made:
            host_of(made)
            watch = made.driver._watch
            watch.changed = watch.ended = raises
            made.fleet.holder, made.fleet.prompt = made.driver.attempt_slots, True
            made.fleet.left.set()
            await is_running(made)
            watch.answered = raises
            made.driver.post(on.StopAsked("stop", None))
            await made.driver.closed()
            assert made.driver.machine.state is JobState.FINISHED

    run(test)


@pytest.mark.parametrize("state", [JobState.SCHEDULING, JobState.RUNNING])
def test_a_master_that_fails_leaves_the_job_and_answers_everyone(
    state: JobState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            host_of(made)
            made.fleet.left.set()
            if state is JobState.RUNNING:
                made.fleet.holder, made.fleet.prompt = made.driver.attempt_slots, True
            await made.until(lambda: made.driver.machine.state is state, state.value)

            def fails(event: on.Event, now_ms: int) -> list[do.Effect]:
                raise AssertionError("a broken invariant")

            monkeypatch.setattr(made.driver.machine, "handle", fails)
            for event in (on.SavepointAsked("savepoint", "/s"), on.CancelAsked("cancel"), on.Suspend("the end")):
                made.driver.post(event)
            await made.driver.closed()
            made.driver.post(on.RescaleAsked("late", 2))
            assert sorted(made.answers) == ["cancel", "late", "savepoint"]
            assert all(answer and "a broken invariant" in answer.message for answer in made.answers.values())
            (ended,) = made.ended
            assert ended.state is JobState.SUSPENDED
            assert made.driver.broken is not None
            assert causes(made) == ["AssertionError: a broken invariant"]
            assert bool(made.fleet.retired) == (state is JobState.RUNNING), "its slots are released"

    run(test)


def test_more_events_than_a_master_can_take_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with driven(tmp_path) as made:
            host_of(made)
            await made.until(lambda: made.driver.machine.state is JobState.SCHEDULING, "SCHEDULING")
            # the same queue: its master waits there
            monkeypatch.setattr(made.driver._events, "_maxsize", 2)
            for number in range(4):
                made.driver.post(on.SavepointAsked(str(number), "/s"))
            await made.driver.closed()
            assert sorted(made.answers) == ["0", "1", "2", "3"]
            assert made.driver.broken is not None

    run(test)
