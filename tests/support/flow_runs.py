"""Runs of the flows of tests/flows on a cluster: all of them as parameters, and what each run must give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.flow_cluster import Stage
from support.flow_site import flows

Staged = Callable[[], Stage]
every_flow = pytest.mark.parametrize("flow", flows(), ids=lambda flow: flow.name)


def check(stage: Stage) -> None:
    """The rows are those of the golden, and so are the floors that are kept with them."""
    golden = stage.flow.golden.read_text().splitlines()
    assert stage.flow.canonical(stage.written()) == golden
    if stage.parts:
        assert stage.floors() == stage.expected_floors()
