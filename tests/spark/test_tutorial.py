"""docs/tutorial-backfill.md does what it says: its commands run as they stand in a new HOME, and print what it shows.

They start three Sparks: the full tier runs them. The commit tier checks that each of them is one that headrace takes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.core.settings import cache_folder
from headrace_dev.broker import EmbeddedBroker
from support.clusters.local import home_of_processes
from support.kafka.broker import consume_all
from support.pages.steps import Step, missing, outputs, script_of, steps_of
from support.processes.commands import headrace
from support.processes.running import RUN_TIMES
from support.repository import ROOT

PAGE = ROOT / "docs" / "tutorial-backfill.md"
OF_HEADRACE = re.compile(r"""\bheadrace ((?:[^|;()'"]|'[^']*'|"[^"]*")+)""")
"""A command in a line of the shell, and its arguments."""
SECONDS_MAX = 1_700
CONSUMED = re.compile(r"\bkafka consume (\S+)")
SETTLED = "import sys; from support.kafka.log_ends import wait_settled; wait_settled(*sys.argv[1:])"


def settling(command: str, brokers: str) -> str:
    """Before a command that reads a topic: what has been committed there is so for readers, a moment after it was."""
    place = shlex.quote(str(ROOT / "tests"))
    waits = [f"PYTHONPATH={place} python -c '{SETTLED}' {brokers} {topic}" for topic in CONSUMED.findall(command)]
    return "".join(f"{wait}\n" for wait in waits)


def in_bash(steps: list[Step], folder: Path, brokers: str) -> list[list[str]]:
    """Runs the commands in one shell, which ends with the first that fails. What each has printed."""
    script = script_of(steps, lambda command: settling(command, brokers))
    user = folder.parent / "user"
    user.mkdir()
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("HEADRACE_", "KAFKA_"))}
    environment = (
        inherited
        | RUN_TIMES
        | {
            "HOME": str(user),
            "XDG_CACHE_HOME": str(cache_folder().parent),
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
    parts = outputs(told)
    assert code == 0, f"{steps[len(parts) - 1].command}: exit code {code}\n{told[-5000:]}"
    return parts


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
