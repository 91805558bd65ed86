"""Commands of tests are forked, not started: most of a command's time is its imports, of a cluster's even more."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clusters.session import Cluster
from support.processes.forked.command import Command, can_be_forked


def test_commands_of_a_cluster_are_forked(tmp_path: Path) -> None:
    environment = Cluster(tmp_path).environment()
    # a variable of Python's that pytest was not started with would be for a fresh interpreter
    assert can_be_forked(environment)


def test_commands_with_packages_of_their_own_are_forked(tmp_path: Path) -> None:
    assert can_be_forked(Cluster(tmp_path, python_path=[tmp_path]).environment())


@pytest.mark.parametrize("variable", ["PYTHONHASHSEED", "PYTHONDEVMODE", "LD_PRELOAD"])
def test_what_only_a_fresh_interpreter_takes_up_is_not_forked(tmp_path: Path, variable: str) -> None:
    assert not can_be_forked({**Cluster(tmp_path).environment(), variable: "1"})


def test_a_forked_command_is_one(tmp_path: Path) -> None:
    with Command(["--version"], tmp_path, Cluster(tmp_path).environment()) as command:
        out, err = command.communicate(timeout=60)
    assert (command.returncode, err) == (0, "")
    assert out.startswith("headrace ")
