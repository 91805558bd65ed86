"""What a forked process keeps of memory that it has freed, beside a fresh interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.processes.spawning import SpawnStarter
from headrace.processes.template.client import TemplateStarter
from support.processes.running import wait_until
from support.processes.told import Told
from support.processes.told_program import PROGRAM

RATIO_MAX = 1.2
KEPT_MAX = 0.4
"""Of what a peak takes: allocators keep some of it for what comes next."""


@pytest.mark.usefixtures("told_importable")
@pytest.mark.parametrize("trickle", [False, pytest.param(True, marks=pytest.mark.full)])
def test_freed_memory_goes_back_to_the_system(tmp_path: Path, trickle: bool) -> None:
    starter = TemplateStarter([PROGRAM])
    try:
        with Told(starter, tmp_path) as forked, Told(SpawnStarter(), tmp_path) as fresh:
            before_bytes = fresh.ask("resident")
            peak_bytes = fresh.ask("peak")
            forked.ask("peak")

            def resident_bytes(told: Told) -> int:
                if trickle:
                    told.ask("trickle")
                found: int = told.ask("resident")
                return found

            settled_bytes = before_bytes + KEPT_MAX * (peak_bytes - before_bytes)
            wait_until(lambda: resident_bytes(fresh) < settled_bytes, "the fresh one has returned its memory")
            wait_until(lambda: resident_bytes(forked) <= RATIO_MAX * resident_bytes(fresh), "so has the forked one")
    finally:
        starter.close()
