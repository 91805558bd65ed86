"""A supervised child: its socket pair, its end, and why."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from headrace.core.errors import Domain, ExternalError
from headrace.processes.child import Child
from headrace.processes.order import ProcessOrder
from headrace.processes.supervised import Ending, SupervisedChild, exited_with


class FakeChild:
    """Ends with the code that a test says; a kill ends it as SIGKILL does."""

    pid = 4711

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        """Its exit code."""
        return self.code

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Its exit code."""
        return self.code

    def kill(self) -> None:
        """It ends."""
        self.code = -signal.SIGKILL


class FakeStarter:
    """Starts a fake child, which holds a duplicate of its end as a process would; or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.child = FakeChild()
        self.failure = failure
        self.theirs: socket.socket | None = None

    def ready(self) -> bool:
        """Always."""
        return True

    def start(self, order: ProcessOrder) -> Child:
        """Starts the child."""
        self.theirs = socket.socket(fileno=os.dup(order.keep[0]))
        if self.failure is not None:
            raise self.failure
        return self.child

    def close(self) -> None:
        """Nothing runs."""


def order(fd: int) -> ProcessOrder:
    return ProcessOrder("program", ("role",), {}, 1, 2, keep=(fd,))


def supervised() -> tuple[SupervisedChild, FakeChild]:
    starter = FakeStarter()
    child = SupervisedChild(starter, order)
    assert starter.theirs is not None
    starter.theirs.close()
    child.connection.close()
    return child, starter.child


def test_the_two_ends_are_connected_and_only_the_child_holds_its_own() -> None:
    starter = FakeStarter()
    child = SupervisedChild(starter, order)
    assert starter.theirs is not None
    with child.connection:
        starter.theirs.sendall(b"hello")
        assert child.connection.recv(5) == b"hello"
        starter.theirs.close()
        assert child.connection.recv(5) == b"", "no other descriptor keeps the stream open"


def test_a_child_that_cannot_be_started_leaves_no_socket_behind() -> None:
    starter = FakeStarter(ExternalError("no memory"))
    with pytest.raises(ExternalError, match="no memory"):
        SupervisedChild(starter, order)
    assert starter.theirs is not None
    with starter.theirs:
        assert starter.theirs.recv(1) == b""


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (0, Ending("left", clean=True)),
        (3, Ending("exited with code 3", domain=Domain.INTERNAL)),
        (-signal.SIGTERM, Ending("killed by signal 15 (SIGTERM)")),
        (-signal.SIGKILL, Ending("killed by signal 9 (SIGKILL; the system kills so when memory runs out)")),
        (-signal.SIGSEGV, Ending("killed by signal 11 (SIGSEGV)", domain=Domain.INTERNAL)),
        (-signal.SIGABRT, Ending("killed by signal 6 (SIGABRT)", domain=Domain.INTERNAL)),
        (-63, Ending("killed by signal 63 (unknown)")),
    ],
)
def test_an_end_is_explained(code: int, ending: Ending) -> None:
    child, process = supervised()
    assert not child.has_ended()
    assert not child.wait(0.0)
    process.code = code
    assert child.wait(0.0)
    assert child.ending() == ending


@pytest.mark.parametrize("code", [0, 3, -signal.SIGSEGV, -signal.SIGKILL])
def test_an_end_inside_of_a_function_is_its_users(code: int) -> None:
    child, process = supervised()
    process.code = code
    ending = child.ending(lambda code: exited_with(code, " while it ran f"), " while it ran f")
    assert ending.domain is Domain.USER
    assert ending.reason.endswith(" while it ran f")


def test_an_exit_code_may_have_a_meaning() -> None:
    child, process = supervised()
    process.code = 3
    assert child.ending({3: Ending("its lease expired")}.__getitem__) == Ending("its lease expired")


def test_the_first_reason_of_a_kill_stands() -> None:
    child, _ = supervised()
    child.kill("killed: it was late")
    child.kill("killed: it was silent")
    assert child.ending() == Ending("killed: it was late")


def test_a_child_that_has_ended_is_not_killed() -> None:
    child, process = supervised()
    process.code = 0
    child.kill("killed: it was late")
    assert child.ending() == Ending("left", clean=True)
