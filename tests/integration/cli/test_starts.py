"""Each verb as a user starts it: by a fresh interpreter. Other tests fork commands (`support.processes.forked`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.app import VERBS
from support.patience import WAIT_SECONDS
from support.processes.running import Finished, headrace

SHOWN = sorted(verb.name for verb in VERBS if not verb.hidden)


def started(arguments: list[str], folder: Path) -> Finished:
    """Runs the installed script to its end."""
    done = subprocess.run(
        [Path(sys.executable).parent / "headrace", *arguments],
        cwd=folder,
        env=os.environ | {"HEADRACE_HOME": str(folder / "home"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("verb", SHOWN)
@pytest.mark.turns(3)
def test_each_verb_starts(verb: str, tmp_path: Path) -> None:
    done = started([verb, "--help"], tmp_path)
    assert (done.code, done.err) == (0, "")
    assert f"Usage: headrace {verb}" in done.out


def test_a_forked_command_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: Nothing\nsinks: {}\n")
    for arguments in (["validate", "p.yaml"], ["validate", "--json", "missing.yaml"], ["list"], ["--version"]):
        assert headrace(arguments, tmp_path) == started(arguments, tmp_path)
