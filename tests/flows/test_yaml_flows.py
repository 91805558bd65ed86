"""The pipelines of this folder on a cluster: straight, killed, rescaled, saved; always the rows of one golden.

Sinks are at-least-once: rows count once, updating ones by the last row of their key. A straight run repeats nothing.
`pytest --rewrite-goldens` writes the goldens anew, from straight runs; what they should be the oracle says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.local.broker import EmbeddedBroker
from support.cluster import Cluster
from support.flow_cluster import Flow, Stage, TooQuickError, flows
from support.flow_oracle import expected, rounded

Staged = Callable[[float | None], Stage]
every_flow = pytest.mark.parametrize("flow", flows(), ids=lambda flow: flow.name)
PACES = (2.5, 10.0, 40.0)
"""Seconds that a run takes at least: more of them, where it had ended before anything could happen to it."""


@pytest.fixture
def staged(flow: Flow, cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Staged]:
    """Runs of a flow; what still runs at the end is canceled."""
    stages: list[Stage] = []

    def broker() -> EmbeddedBroker:
        running: EmbeddedBroker = request.getfixturevalue("broker")  # only for flows that need one
        return running

    def stage(seconds: float | None) -> Stage:
        stages.append(Stage(flow, cluster, broker, tmp_path / f"stage-{len(stages)}", seconds))
        return stages[-1]

    yield stage
    for each in stages:
        each.cancel()


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


@every_flow
def test_straight(flow: Flow, staged: Staged, request: pytest.FixtureRequest) -> None:
    stage = staged(None)
    if stage.parts:
        stage.feed(0)
    stage.submit()
    for number in range(1, len(stage.parts)):
        stage.settle(number - 1)
        stage.feed(number)
    if stage.parts:
        stage.settle(len(stage.parts) - 1)
    stage.finish()
    written = stage.written()
    if request.config.getoption("--rewrite-goldens"):
        flow.golden.write_text("".join(f"{line}\n" for line in flow.canonical(written)))
    check(stage)
    assert not {sink: rows for sink, rows in flow.repeated(written).items() if rows}


@every_flow
def test_killed(flow: Flow, staged: Staged) -> None:
    def run(stage: Stage) -> None:
        if not stage.parts:
            stage.submit()
            stage.checkpointed()
            stage.kill_slot()
        else:
            stage.feed(0)
            stage.submit()
            stage.settle(0)
            stage.feed(1)
            stage.kill_slot()
            stage.settle(1)
            stage.feed(2)
            stage.kill_slot()
            stage.settle(2)
        stage.finish()

    check(disturbed(staged, run))


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


@every_flow
def test_rescaled(flow: Flow, staged: Staged) -> None:
    check(disturbed(staged, lambda stage: in_steps(stage, stage.rescale)))


@every_flow
def test_saved(flow: Flow, staged: Staged) -> None:
    def run(stage: Stage) -> None:
        in_steps(stage, lambda to: stage.submit(to, savepoint=stage.stop(), at_once=to == 1))

    check(disturbed(staged, run))


@every_flow
def test_goldens_are_what_the_oracle_says(flow: Flow) -> None:
    assert rounded(flow) == expected(flow)
