"""docs/tutorial-first.md and examples/README.md run as they stand: files and commands, in a new HOME, nothing prepared.

The commands run in a network namespace of their own, where port 9092 is free, and where nothing can be fetched.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.network_hosts import Namespace
from support.pages.steps import Step, missing, outputs, script_of, steps_of
from support.processes.terminal import user_environment
from support.repository import ROOT

TUTORIAL = ROOT / "docs/tutorial-first.md"
EXAMPLES = ROOT / "examples"
SAVED = re.compile(r"Save this as `([^`]+)`:\n\n```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS_MAX = 900


@pytest.fixture
def network() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


def _run(script: str, folder: Path, home: Path, network: Namespace) -> tuple[int, str]:
    with (home / "output").open("wb") as out:
        code = subprocess.run(
            [*network.prefix, "bash", "-c", script],
            cwd=folder,
            env=user_environment(home) | {"COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SECONDS_MAX,
        ).returncode
    return code, (home / "output").read_text()


def _done(page: str, folder: Path, home: Path, network: Namespace) -> dict[str, list[str]]:
    """Runs the commands of a page in one shell; command -> printed lines. They are what the page shows."""
    steps = list(steps_of(page))
    try:
        code, told = _run(script_of(steps), folder, home, network)
    finally:
        _run("headrace cluster stop; headrace kafka down", folder, home, network)
    printed = outputs(told)
    assert code == 0, f"{steps[len(printed) - 1].command}: exit code {code}\n{told[-5000:]}"
    assert len(printed) == len(steps)
    both = list(zip(steps, printed, strict=True))
    wrong = [(step.command, gone, lines) for step, lines in both if (gone := missing(step.shown, lines))]
    assert wrong == []
    return {_without_comment(step): lines for step, lines in both}


def _without_comment(step: Step) -> str:
    return step.command.partition("  #")[0].rstrip()


@pytest.mark.full
@pytest.mark.broker
def test_the_commands_of_the_tutorial(tmp_path: Path, network: Namespace) -> None:
    page = TUTORIAL.read_text()
    for name, text in SAVED.findall(page):
        (tmp_path / name).write_text(text)
    assert len(_done(page, tmp_path, tmp_path, network)) > 20


@pytest.mark.full
@pytest.mark.broker
def test_the_commands_of_the_examples(tmp_path: Path, network: Namespace) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    printed = _done((EXAMPLES / "README.md").read_text(), folder, tmp_path, network)
    assert len(printed["headrace kafka consume delays --keys -n 5"]) == 5
    assert "cannot convert 'free'" in printed["headrace kafka consume orders-unpriced"][0]
    assert any("flight-delays" in line for line in printed["headrace list"])
