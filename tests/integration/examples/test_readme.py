"""The README runs as it stands: its pipeline and its commands, in a new HOME, with nothing prepared.

The commands run in a network namespace of their own, where port 9092 is free, and where nothing can be fetched.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.core.settings import cache_folder
from support.clusters.network_hosts import Namespace
from support.processes.running import RUN_TIMES, WAIT_SECONDS, wait_until
from support.repository import ROOT

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]

FLIGHTS = 336_776
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Terminal:
    """A folder of a user with a new HOME, where commands are run as they are written."""

    def __init__(self, folder: Path, network: Namespace) -> None:
        self.folder = folder
        self._prefix = network.prefix
        self._begun = 0
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(("HEADRACE_", "KAFKA_"))}
        self._environment = inherited | {
            **RUN_TIMES,
            "HOME": str(folder),
            # the broker's jars only: there is no network to fetch them from
            "XDG_CACHE_HOME": str(cache_folder().parent),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def begin(self, command: str) -> subprocess.Popen[bytes]:
        """Starts a command; it writes to `out.txt` and `err.txt`."""
        # from a file of its own, which the shell reads when it gets to: in the shell's command line `pkill -f` would
        # find its own words, and kill the shell
        self._begun += 1
        script = self.folder / f"command-{self._begun}.sh"
        script.write_text(f"exec {command}\n")
        with (self.folder / "out.txt").open("wb") as out, (self.folder / "err.txt").open("wb") as err:
            return subprocess.Popen(
                [*self._prefix, "sh", str(script)], cwd=self.folder, env=self._environment, stdout=out, stderr=err
            )

    def run(self, command: str) -> str:
        """Runs a command to its end; returns what it printed."""
        code = self.begin(command).wait(WAIT_SECONDS)
        assert code == 0, f"{command}: {self.printed()}"
        return (self.folder / "out.txt").read_text()

    def run_until(self, command: str, is_so: Callable[[], bool], what: str) -> str:
        """Runs a command, presses Ctrl-C once it is so, and returns what was on its screen."""
        process = self.begin(command)
        screen = self.folder / "err.txt", self.folder / "out.txt"
        kept = [path.rename(path.with_name(f"run-{path.name}")) for path in screen]
        try:
            wait_until(lambda: process.poll() is not None or is_so(), what)
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_SECONDS)
        finally:
            process.kill()
            process.wait()
        text = "".join(path.read_text() for path in kept)
        assert process.returncode == 0, f"{command}: {text}"
        return text

    def printed(self) -> str:
        """What the last command printed."""
        return (self.folder / "out.txt").read_text() + (self.folder / "err.txt").read_text()

    def delays(self) -> int:
        """Messages in the result topic; 0 if there is none yet."""
        topics = json.loads(self.run("headrace kafka topics --json"))["topics"]
        return sum(topic["messages"] for topic in topics if topic["name"] == "delays")


def commands(block: str) -> list[str]:
    return [line[2:].partition("  #")[0].strip() for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "README.md").read_text()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    network = Namespace()
    opened = Terminal(tmp_path, network)
    try:
        yield opened
    finally:
        opened.run("headrace kafka down")
        network.close()


def test_the_first_pipeline_runs_as_it_stands(page: str, terminal: Terminal) -> None:
    section = page.partition("## A pipeline\n")[2]
    blocks = [match.groups() for match in BLOCK.finditer(section)]
    assert [kind for kind, _ in blocks[:3]] == ["yaml", "console", "console"]
    (terminal.folder / "delays.yaml").write_text(blocks[0][1])

    up, validate, explain, run, consume = commands(blocks[1][1])
    assert f"made topic flights: {FLIGHTS:,} messages in 3 partitions" in terminal.run(up)
    assert f"topic flights has the sample already: {FLIGHTS:,} messages" in terminal.run(up)
    assert "valid" in terminal.run(validate)
    assert "hourly" in terminal.run(explain)
    shown = terminal.run_until(run, lambda: terminal.delays() > 0, "the first windows are in the topic")
    assert "STOPPED" in shown
    rows = [json.loads(line) for line in terminal.run(consume).splitlines()]
    assert len(rows) == 5
    assert {row["origin"] for row in rows} <= {"EWR", "JFK", "LGA"}

    parallel, resumed, saved = commands(blocks[2][1])
    _one_killed_slot_is_replaced(terminal, page, parallel)
    assert "STOPPED" in terminal.run_until(resumed, lambda: _is_running(terminal), "it goes on")
    terminal.run(saved)
    assert list((terminal.folder / "saved").glob("savepoint-*"))

    terminal.run("headrace kafka produce flights delays.yaml")
    assert terminal.begin(up).wait(WAIT_SECONDS) == 2
    assert "exists and does not have the sample" in terminal.printed()
    assert terminal.printed().count("headrace kafka delete flights") == 1
    (delete,) = re.findall(r"`(headrace kafka delete [^`]+)`", page)
    assert terminal.run(delete) == "deleted topic flights\ndeleted topic delays\n"


def _one_killed_slot_is_replaced(terminal: Terminal, page: str, run: str) -> None:
    (kill,) = re.findall(r"`(pkill -9 -n [^`]+)`", page)
    before = terminal.delays()
    killed: list[int] = []

    def is_replaced() -> bool:
        if not killed and terminal.delays() > before:
            terminal.run(kill)
            killed.append(terminal.delays())
        return bool(killed) and "restart" in (terminal.folder / "run-err.txt").read_text() and _is_running(terminal)

    terminal.run_until(run, is_replaced, "another slot goes on")
    assert killed


def _is_running(terminal: Terminal) -> bool:
    """Whether the last line of the run's screen is progress."""
    lines = (terminal.folder / "run-err.txt").read_text().splitlines()
    return bool(lines) and "rows/s" in lines[-1]
