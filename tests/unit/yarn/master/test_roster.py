"""What an ApplicationMaster knows of its containers."""

from __future__ import annotations

from headrace.yarn.master.roster import MORE_MEMORY, HeldPhase, Roster, reason_of
from headrace.yarn.records import Allocation, ContainerEnd, ContainerSize, Token

TOKEN = Token(b"", "", b"", "")


def allocation(number: int) -> Allocation:
    return Allocation(f"container_{number}", number, "node:1", "", ContainerSize(1, 1), 1, TOKEN)


def running(*numbers: int) -> Roster:
    roster = Roster()
    for number in numbers:
        assert roster.requested(number)
        roster.granted(allocation(number))
        roster.started(number)
    return roster


def phases(roster: Roster) -> dict[int, HeldPhase]:
    return {each.number: each.phase for each in roster.listed()}


def test_a_container_from_its_request_to_its_end() -> None:
    roster = Roster()
    assert roster.requested(1)
    assert not roster.requested(1)
    assert phases(roster) == {1: HeldPhase.REQUESTED}
    roster.granted(allocation(1))
    assert phases(roster) == {1: HeldPhase.GRANTED}
    roster.started(1)
    assert phases(roster) == {1: HeldPhase.RUNNING}
    roster.ended([ContainerEnd("container_1", 137, "Killed by external signal")])
    assert phases(roster) == {1: HeldPhase.ENDED}
    assert roster.released(1) is None
    assert phases(roster) == {}


def test_a_released_container_stays_until_its_end() -> None:
    roster = running(1)
    held = roster.released(1)
    assert held is not None
    assert held.container == "container_1"
    assert roster.released(1) is None, "YARN was asked"
    assert phases(roster) == {1: HeldPhase.RUNNING}
    roster.ended([ContainerEnd("container_1", -100, "released")])
    assert phases(roster) == {}


def test_a_container_that_was_killed_for_its_memory_names_that_after_its_release() -> None:
    roster = running(1, 2)
    assert roster.released(1) is not None, "its worker did not come back"
    roster.ended([ContainerEnd("container_1", -104, "beyond the 'PHYSICAL' memory limit")])
    (ended, _) = roster.listed()
    assert (ended.phase, ended.reason) == (
        HeldPhase.ENDED,
        f"exit code -104: beyond the 'PHYSICAL' memory limit; {MORE_MEMORY}",
    )
    assert roster.released(1) is None
    assert phases(roster) == {2: HeldPhase.RUNNING}


def test_an_end_before_the_answer_to_its_start_counts() -> None:
    roster = Roster()
    roster.requested(1)
    roster.granted(allocation(1))
    roster.ended([ContainerEnd("container_1", 1, "")])
    roster.started(1)
    roster.failed(1, "the answer was lost")
    assert [(each.phase, each.reason) for each in roster.listed()] == [(HeldPhase.ENDED, "exit code 1")]


def test_a_later_attempt_takes_over_what_runs_and_ignores_ends_of_others() -> None:
    roster = Roster()
    roster.kept([allocation(3), allocation(4)])
    roster.ended([ContainerEnd("container_9", -105, "the old ApplicationMaster")])
    assert phases(roster) == {3: HeldPhase.RUNNING, 4: HeldPhase.RUNNING}
    # a registration after a restart of the ResourceManager names none
    roster.kept([])
    assert len(roster.listed()) == 2


def test_reasons_are_those_of_yarn() -> None:
    old = "[2026-11-26 17:00:00.000]Container [pid=1,containerID=c] is running beyond physical memory limits. Current"
    new = "Container [pid=1,containerID=c] is running 7B beyond the 'PHYSICAL' memory limit. Current usage: 1.2 GB"
    for line in (old, new):
        reason = reason_of(ContainerEnd("c", -104, f"{line}\nDump of the process-tree for c :\n\t|- PID PPID\n"))
        assert reason == f"exit code -104: {line}; {MORE_MEMORY}"
    printed = (
        "[2026-11-26 17:00:00.000]Exception from container-launch.\nContainer id: c\nExit code: 1\n\n"
        "[2026-11-26 17:00:00.001]Container exited with a non-zero exit code 1. Error file: prelaunch.err.\n"
        "Last 4096 bytes of prelaunch.err :\nLast 4096 bytes of stderr :\nerror: there is no token\n"
    )
    assert reason_of(ContainerEnd("c", 1, printed)).endswith("error: there is no token")
    assert reason_of(ContainerEnd("c", 137, "")) == "exit code 137"
    assert len(reason_of(ContainerEnd("c", 1, "x" * 9_000))) <= 500
