"""docs/tutorial-backfill.md does what it says: its commands run as they stand, and print what it shows.

They start three Sparks: the full tier runs them. The commit tier checks that each of them is one that headrace takes.
A page's line may have `..` for what differs between runs. Seconds and per cents may be others, lines may be left out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.local import home_of_processes
from support.kafka.broker import consume_all
from support.processes.commands import headrace
from support.processes.running import RUN_TIMES
from support.repository import ROOT

PAGE = ROOT / "docs" / "tutorial-backfill.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OF_HEADRACE = re.compile(r"""\bheadrace ((?:[^|;()'"]|'[^']*'|"[^"]*")+)""")
"""A command in a line of the shell, and its arguments."""
MARK = "@@ command"
SECONDS_MAX = 1_700
CONSUMED = re.compile(r"\bkafka consume (\S+)")
SETTLED = "import sys; from support.kafka.log_ends import wait_settled; wait_settled(*sys.argv[1:])"
DIFFERS = (
    (re.escape(re.escape("..")), ".*"),
    (r"\d+\\\.\d(?=\\ s\b)", r"\\d+\\.\\d"),
    (r"\d+%", r"\\d+%"),
    (r"(\\ )+", r"\\s+"),
)
"""What a shown line, escaped, has instead of what is another in every run."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command and the lines that the page shows below it."""

    command: str
    shown: list[str]


def steps_of(page: str) -> Iterator[Step]:
    for block in BLOCK.findall(page):
        for part in f"\n{block}".split("\n$ ")[1:]:
            command, *shown = part.splitlines()
            yield Step(command, shown)


def missing(shown: list[str], printed: list[str]) -> list[str]:
    """Shown lines that were not printed, in the order of the page."""
    lines = iter(printed)
    return [line for line in shown if not any(_pattern(line).fullmatch(each) for each in lines)]


def _pattern(line: str) -> re.Pattern[str]:
    pattern = re.escape(line)
    for what, other in DIFFERS:
        pattern = re.sub(what, other, pattern)
    return re.compile(rf"{pattern}\s*")


def settling(command: str, brokers: str) -> str:
    """Before a command that reads a topic: what has been committed there is so for readers, a moment after it was."""
    place = shlex.quote(str(ROOT / "tests"))
    waits = [f"PYTHONPATH={place} python -c '{SETTLED}' {brokers} {topic}" for topic in CONSUMED.findall(command)]
    return "".join(f"{wait}\n" for wait in waits)


def in_bash(steps: list[Step], folder: Path, brokers: str) -> list[list[str]]:
    """Runs the commands in one shell, which ends with the first that fails. What each has printed."""
    parts = [f"{settling(step.command, brokers)}echo; echo '{MARK}'\n{step.command}" for step in steps]
    script = "\n".join(["set -eo pipefail", *parts])
    environment = (
        os.environ
        | RUN_TIMES
        | {
            "HEADRACE_HOME": str(folder.parent / "home"),
            "KAFKA_BROKERS": brokers,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder.parent / "spark"),
        }
    )
    output = folder.parent / "output"
    with output.open("wb") as out:
        code = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SECONDS_MAX,
        ).returncode
    told = output.read_text()
    parts = told.split(f"\n{MARK}\n")[1:]
    assert code == 0, f"{steps[len(parts) - 1].command}: exit code {code}\n{told[-5000:]}"
    return [part.splitlines() for part in parts]


def test_its_commands_are_taken() -> None:
    commands = [
        shlex.split(command) for step in steps_of(PAGE.read_text()) for command in OF_HEADRACE.findall(step.command)
    ]
    assert {"submit", "archive", "verify", "replay", "explain", "run"} <= {command[0] for command in commands}
    for command in commands:
        headrace(*command, "--help")  # names of options are read before help is shown


@pytest.mark.full
@pytest.mark.broker
def test_the_commands_of_the_tutorial(broker: EmbeddedBroker, tmp_path: Path) -> None:
    folder = tmp_path / "backfill"
    shutil.copytree(
        ROOT / "examples" / "backfill", folder, ignore=shutil.ignore_patterns("kept", "saved", "*.tsv", "*.txt")
    )
    steps = list(steps_of(PAGE.read_text()))
    with home_of_processes(tmp_path):
        printed = in_bash(steps, folder, broker.bootstrap)

    assert len(printed) == len(steps)
    wrong = [
        (step.command, gone, lines)
        for step, lines in zip(steps, printed, strict=True)
        if (gone := missing(step.shown, lines))
    ]
    assert wrong == []
    live, check = (
        Counter((record.key, record.value) for record in consume_all(broker, topic, "read_committed"))
        for topic in ("delays-v2", "delays-check")
    )
    assert live == check
    assert live.total() == 5591
