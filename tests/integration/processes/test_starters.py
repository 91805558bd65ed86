"""Processes that are forked from a template are what fresh interpreters would be; both by one suite."""

from __future__ import annotations

import errno
import gc
import itertools
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError
from headrace.processes.marked_process import command_line
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.processes.template.client import TemplateStarter
from support.processes.running import WAIT_SECONDS, wait_until
from support.processes.told import Told
from support.processes.told_program import PROGRAM, ROLE


@pytest.fixture(scope="module")
def forking(told_importable: None) -> Iterator[TemplateStarter]:
    starter = TemplateStarter([PROGRAM])
    yield starter
    starter.close()


@pytest.fixture(params=["forkserver", "spawn"])
def starter(request: pytest.FixtureRequest, told_importable: None) -> Starter:
    if request.param == "spawn":
        return SpawnStarter()
    made: TemplateStarter = request.getfixturevalue("forking")
    return made


def test_a_process_has_what_was_ordered_and_nothing_else(starter: Starter, tmp_path: Path) -> None:
    inheritable = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    with Told(starter, tmp_path, ["--home", "here"], TMPDIR=str(tmp_path), MARK="ä") as told:
        facts = told.ask("facts")
        arguments = command_line(told.child.pid)
        shown = Path(f"/proc/{told.child.pid}/environ").read_bytes().split(b"\0")
        told.close()
        assert told.child.wait(WAIT_SECONDS) == 0
    os.close(inheritable)

    assert (facts["pid"], facts["parent"], facts["session"]) == (told.child.pid, os.getpid(), told.child.pid)
    assert arguments[-6:-1] == [ROLE, *facts["arguments"][-4:]]
    assert {"MARK=ä".encode(), f"TMPDIR={tmp_path}".encode()} <= set(shown)
    assert facts["environment"]["MARK"] == "ä"
    assert facts["temporary"] == str(tmp_path)
    descriptors = facts["descriptors"]
    assert descriptors["0"] == "/dev/null"
    assert descriptors["1"] == descriptors["2"] == str(told.log)
    # its socket, and what lists the descriptors
    assert len(descriptors) <= 5, descriptors
    assert facts["folder"] == str(Path.cwd())
    assert str(Path.cwd()) not in facts["path"]
    assert "" not in facts["path"]
    assert facts["handled"] == ["SIGINT"]
    assert facts["blocked"] == []
    assert facts["threads"] == ["MainThread"]
    assert facts["handlers"] == 0
    assert facts["collector"] == [True, *gc.get_threshold()]
    assert facts["stdin"] == ""


def test_a_template_that_runs_out_of_descriptors_refuses_and_goes_on(told_importable: None, tmp_path: Path) -> None:
    with closing(TemplateStarter([PROGRAM])) as starter:
        with Told(starter, tmp_path):
            pass
        assert starter._template is not None
        template = starter._template.process.pid
        before = resource.prlimit(template, resource.RLIMIT_NOFILE)
        free = (number for number in itertools.count() if not os.path.lexists(f"/proc/{template}/fd/{number}"))
        # an order brings three: then there is none for the pipe over which the child is told to go
        third = list(itertools.islice(free, 3))[-1]
        resource.prlimit(template, resource.RLIMIT_NOFILE, (third + 1, before[1]))
        with pytest.raises(ExternalError, match=os.strerror(errno.EMFILE)):
            Told(starter, tmp_path)
        resource.prlimit(template, resource.RLIMIT_NOFILE, before)
        with Told(starter, tmp_path):
            assert starter._template.process.pid == template


def test_variables_that_only_a_fresh_interpreter_takes_up(starter: Starter, tmp_path: Path) -> None:
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
    with Told(starter, tmp_path, PYTHONPATH=path) as told:
        assert str(tmp_path) in told.ask("facts")["path"]


def test_random_numbers_differ(starter: Starter, tmp_path: Path) -> None:
    with Told(starter, tmp_path) as one, Told(starter, tmp_path) as two:
        first, second = one.ask("facts")["random"], two.ask("facts")["random"]
    assert first[0] != second[0]
    assert first[1] != second[1]


@pytest.mark.parametrize(("word", "code"), [("exit", 0), ("exit", 72), ("raise", 3)])
def test_exit_codes(starter: Starter, tmp_path: Path, word: str, code: int) -> None:
    with Told(starter, tmp_path) as told:
        assert told.child.poll() is None
        assert told.child.wait(0.01) is None
        told.tell(word, code)
        assert told.child.wait(WAIT_SECONDS) == code
        assert told.child.poll() == told.child.wait() == code
        told.child.kill()  # harmless: it has ended


def test_killed(starter: Starter, tmp_path: Path) -> None:
    with Told(starter, tmp_path) as told:
        told.child.kill()
        assert told.child.wait(WAIT_SECONDS) == -signal.SIGKILL


def test_an_exception_is_in_the_log(starter: Starter, tmp_path: Path) -> None:
    with Told(starter, tmp_path) as told:
        told.tell("no such word")
        assert told.child.wait(WAIT_SECONDS) == 1
    assert "AssertionError: no such word" in told.log.read_text()


def test_children_survive_a_template_that_is_killed(forking: TemplateStarter, tmp_path: Path) -> None:
    with Told(forking, tmp_path) as before:
        os.kill(_template(), signal.SIGKILL)
        with Told(forking, tmp_path) as after:
            assert before.ask("query") == after.ask("query") == [{"k": 1, "len": 2}, {"k": 2, "len": 1}]
            before.tell("exit", 7)
            after.tell("exit", 8)
            assert (before.child.wait(WAIT_SECONDS), after.child.wait(WAIT_SECONDS)) == (7, 8)


def test_a_template_that_hangs_is_replaced(
    told_importable: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = TemplateStarter([PROGRAM], answer_s=WAIT_SECONDS)
    with ExitStack() as end:
        end.callback(starter.close)
        first = end.enter_context(Told(starter, tmp_path))
        template = starter._template
        assert template is not None
        os.kill(template.process.pid, signal.SIGSTOP)
        # soon given up is this one alone: the next one may be slow
        monkeypatch.setattr(template, "fork", lambda order, _: type(template).fork(template, order, 0.5))
        second = end.enter_context(Told(starter, tmp_path))
        assert starter._template is not template
        assert second.ask("query") == first.ask("query")


def _template() -> int:
    """The newest template of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if "headrace-template" in command_line(int(pid))][-1]


@pytest.mark.parametrize("children", [50, pytest.param(1_000, marks=pytest.mark.full)])
def test_nothing_is_left_of_children_that_ended(forking: TemplateStarter, tmp_path: Path, children: int) -> None:
    with Told(forking, tmp_path):
        template = _template()

    def held() -> tuple[int, int, int]:
        descriptors = len(list(Path("/proc/self/fd").iterdir())) + len(list(Path(f"/proc/{template}/fd").iterdir()))
        threads = len(list(Path(f"/proc/{template}/task").iterdir()))
        return descriptors, threads, len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    def resident_kib() -> int:
        lines = Path(f"/proc/{template}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    before, before_kib = held(), resident_kib()
    for number in range(children):
        with Told(forking, tmp_path) as each:
            each.tell("exit", number % 200)
            assert each.child.wait(WAIT_SECONDS) == number % 200
    # Threads that earlier tests have left to this process (clients of brokers that are gone dial again and again) open
    # and close descriptors meanwhile. What a child has left stays.
    wait_until(
        lambda: all(now <= then for now, then in zip(held(), before, strict=True)), f"no more than {before} are held"
    )
    assert _template() == template
    assert resident_kib() < before_kib + 2_048
