"""Processes that outlive their starter: forked off or fresh, and starters themselves, they are alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.clusters.worker_process import is_running
from support.processes.detached_program import PROGRAM, ROLE
from support.processes.running import wait_until

pytestmark = pytest.mark.usefixtures("told_importable")


def reported(folder: Path, method: str) -> dict[str, Any]:
    """What the last of three generations says."""
    report = folder / "report.json"
    command = [sys.executable, "-m", PROGRAM, ROLE, "--generations", "3", "--report", str(report)]
    environment = os.environ | {"HEADRACE_START_METHOD": method}
    subprocess.run(command, env=environment, cwd="/", check=True, stdin=subprocess.DEVNULL)
    wait_until(report.exists, "the last generation reports")
    facts: dict[str, Any] = json.loads(report.read_text())
    wait_until(lambda: not is_running(facts["pid"]), "it has nothing to read and ends")
    return facts


def test_the_last_generation_is_what_a_fresh_interpreter_would_be(tmp_path: Path) -> None:
    made = {}
    for method in ("forkserver", "spawn"):
        folder = tmp_path / method
        folder.mkdir()
        made[method] = reported(folder, method)
    forked, fresh = made["forkserver"], made["spawn"]
    for facts, folder in ((forked, tmp_path / "forkserver"), (fresh, tmp_path / "spawn")):
        log = str(folder / "report.log")
        assert facts["session"] == facts["pid"] or facts is fresh
        assert facts["folder"] == str(folder)
        assert facts["variable"] == "next"
        assert facts["arguments"][0] == ROLE
        assert facts["descriptors"]["0"] == "/dev/null"
        assert facts["descriptors"]["1"] == facts["descriptors"]["2"] == log
        # what lists the descriptors
        assert len(facts["descriptors"]) <= 4, facts["descriptors"]
        # generations tell whom they have started, each when it comes to it: the last one may be gone by then
        wait_until(lambda log=log: Path(log).read_text().count("\n") == 2, "two generations tell")  # type: ignore[misc]
        pids = [int(line) for line in Path(log).read_text().split()]
        assert facts["pid"] in pids
        assert facts["parent"] not in pids
    assert {each for each in fresh["path"] if not each.startswith(str(tmp_path))} <= set(forked["path"])
