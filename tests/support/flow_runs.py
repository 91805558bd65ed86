"""Runs of the flows of tests/flows: all of them as parameters, runs that something happens to, what all must give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.flow_cluster import Stage, TooQuickError
from support.flow_site import flows

Staged = Callable[[float | None], Stage]
every_flow = pytest.mark.parametrize("flow", flows(), ids=lambda flow: flow.name)
PACES = (2.5, 10.0, 40.0, 120.0)
"""Seconds that a run takes at least: more of them, where it had ended before anything could happen to it."""


def disturbed(staged: Staged, run: Callable[[Stage], None]) -> Stage:
    """A run that something happened to, at the quickest pace at which it could."""
    for seconds in PACES[:-1]:
        stage = staged(seconds)
        try:
            run(stage)
        except TooQuickError:
            stage.cancel()
        else:
            return stage
    stage = staged(PACES[-1])
    run(stage)
    return stage


def check(stage: Stage) -> None:
    """The rows are those of the golden, and so are the floors that are kept with them."""
    golden = stage.flow.golden.read_text().splitlines()
    assert stage.flow.canonical(stage.written()) == golden
    if stage.parts:
        assert stage.floors() == stage.expected_floors()


def in_steps(stage: Stage, to: Callable[[int], object]) -> None:
    """Begins with two subtasks and goes `to` three and to one, each time with some of the input read."""
    if stage.parts:
        stage.feed(0)
    stage.submit(2)
    for number, parallelism in enumerate((3, 1)):
        if stage.parts:
            stage.settle(number)
            stage.feed(number + 1)
        else:
            stage.checkpointed()
        to(parallelism)
    if stage.parts:
        stage.settle(2)
    stage.finish()
