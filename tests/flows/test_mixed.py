"""Pipelines of this folder that go on from a savepoint where the compiled kernels are missing, or are there again; one
golden. A commit runs a diagonal of them, the full tier every one in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from headrace.kernels.library import KERNELS_VARIABLE
from support.clusters.session import Cluster, running_cluster
from support.flows.runs import Staged, check
from support.flows.site import flows
from support.patience import CLUSTER_TIMES
from support.rotation import of_this_commit

DIRECTIONS = ("kernels first", "kernels last")
SHARES = 3
"""A commit runs one flow of so many."""


def cases() -> Iterator[ParameterSet]:
    """Every flow in both directions; those whose turn it is belong to the commit tier."""
    turn = of_this_commit(range(SHARES * len(DIRECTIONS)))
    for number, flow in enumerate(flows()):
        for place, direction in enumerate(DIRECTIONS):
            is_due = (number * len(DIRECTIONS) + place) % (SHARES * len(DIRECTIONS)) == turn
            marks = [] if is_due else [pytest.mark.full]
            yield pytest.param(flow, direction, id=f"{flow.name}-{direction}", marks=marks)


@pytest.fixture(scope="package")
def without_kernels(tmp_path_factory: pytest.TempPathFactory, site: list[Path]) -> Iterator[Cluster]:
    """A cluster that runs the paths in Python."""
    settings = {**CLUSTER_TIMES, KERNELS_VARIABLE: "off"}
    with running_cluster(tmp_path_factory.mktemp("w"), slots=4, python_path=site, times=settings) as running:
        yield running


@pytest.mark.parametrize(("flow", "direction"), list(cases()))
def test_a_savepoint_restores_on_the_other_kind(
    direction: str, staged: Staged, cluster: Cluster, without_kernels: Cluster
) -> None:
    stage = staged()
    first, last = (cluster, without_kernels) if direction == "kernels first" else (without_kernels, cluster)
    stage.cluster = first
    stage.release(0)
    stage.submit(2)
    stage.settle(0)
    stage.kill_slot_holding(1)
    stage.settle(1)
    stage.release(2)
    savepoint = stage.stop()
    stage.cluster = last
    stage.submit(3, savepoint=savepoint)
    stage.settle(2)
    stage.finish()
    check(stage)
