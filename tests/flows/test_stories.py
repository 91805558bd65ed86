"""The life of each pipeline of this folder on a cluster: killed, rescaled, saved, gone on, killed; one golden.

Sinks are at-least-once: rows count once, updating ones by the last row of their key.
"""

from __future__ import annotations

import pytest

from support.flows.runs import Staged, check
from support.flows.site import Flow, flows
from support.rotation import has_turn

STORIES = [
    pytest.param(flow, id=flow.name, marks=() if has_turn(number, turns=2) else pytest.mark.full)
    for number, flow in enumerate(flows())
]
"""A commit runs every other one."""
START_METHODS = [pytest.param(None, id="default"), pytest.param("spawn", id="spawn", marks=pytest.mark.full)]


@pytest.mark.parametrize("cluster", START_METHODS, indirect=True)
@pytest.mark.parametrize("flow", STORIES)
def test_the_story(flow: Flow, staged: Staged) -> None:
    stage = staged()
    stage.release(0)
    stage.submit(2)
    stage.settle(0)
    stage.kill_slot_holding(1)
    stage.rescale(3)
    stage.settle(1)
    stage.release(2)
    stage.submit(1, savepoint=stage.stop())
    stage.wait_checkpoint()
    stage.kill_slot()
    stage.settle(2)
    stage.finish()
    check(stage)
