"""The life of each pipeline of this folder on a cluster: killed, rescaled, saved, gone on, killed; one golden.

Sinks are at-least-once: rows count once, updating ones by the last row of their key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.flows.runs import Staged, check
from support.flows.site import Flow, flows
from support.rotation import has_turn

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

FORKED, SPAWNED = None, "spawn"


def stories() -> Iterator[ParameterSet]:
    """A commit runs a quarter with forks; the full tier all of them, and a third again with fresh interpreters.
    Quarters and thirds take turns."""
    for flow in flows():
        yield pytest.param(FORKED, flow, id=f"{flow.name}-default", marks=pytest.mark.turns(4))
    for number, flow in enumerate(flows()):
        if has_turn(number, turns=3):
            yield pytest.param(SPAWNED, flow, id=f"{flow.name}-spawn", marks=pytest.mark.full)


@pytest.mark.parametrize(("cluster", "flow"), list(stories()), indirect=["cluster"])
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
