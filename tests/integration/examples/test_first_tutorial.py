"""docs/tutorial-first.md runs as it stands: its files and commands, in a new HOME, with nothing prepared.

The commands run in a network namespace of their own, where port 9092 is free, and where nothing can be fetched.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.settings import cache_folder
from support.clusters.network_hosts import Namespace
from support.page_steps import missing, outputs, script_of, steps_of
from support.processes.running import RUN_TIMES
from support.repository import ROOT

PAGE = ROOT / "docs/tutorial-first.md"
SAVED = re.compile(r"Save this as `([^`]+)`:\n\n```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS_MAX = 900


@pytest.fixture
def network() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


def _run(script: str, folder: Path, network: Namespace) -> tuple[int, str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("HEADRACE_", "KAFKA_"))}
    environment = inherited | {
        **RUN_TIMES,
        "HOME": str(folder),
        # the broker's jars only: there is no network to fetch them from
        "XDG_CACHE_HOME": str(cache_folder().parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    with (folder / "output").open("wb") as out:
        code = subprocess.run(
            [*network.prefix, "bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SECONDS_MAX,
        ).returncode
    return code, (folder / "output").read_text()


@pytest.mark.full
@pytest.mark.broker
def test_the_commands_of_the_tutorial(tmp_path: Path, network: Namespace) -> None:
    page = PAGE.read_text()
    for name, text in SAVED.findall(page):
        (tmp_path / name).write_text(text)
    steps = list(steps_of(page))
    try:
        code, told = _run(script_of(steps), tmp_path, network)
    finally:
        _run("headrace cluster stop; headrace kafka down", tmp_path, network)
    printed = outputs(told)
    assert code == 0, f"{steps[len(printed) - 1].command}: exit code {code}\n{told[-5000:]}"
    assert len(printed) == len(steps)
    wrong = [
        (step.command, gone, lines)
        for step, lines in zip(steps, printed, strict=True)
        if (gone := missing(step.shown, lines))
    ]
    assert wrong == []
