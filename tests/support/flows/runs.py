"""Runs of the flows of tests/flows on a cluster: all of them as parameters, and what each run must give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.flows.cluster import Stage
from support.flows.site import FlowSite, flows

Staged = Callable[[], Stage]
every_flow = pytest.mark.parametrize("flow", flows(), ids=lambda flow: flow.name)


def check(stage: Stage, *, each_once: bool = False) -> None:
    """The rows are those of the golden, and so are the floors that are kept with them."""
    check_rows(stage, each_once=each_once)
    if stage.parts:
        assert stage.floors() == stage.expected_floors()


def check_rows(site: FlowSite, *, each_once: bool) -> None:
    """The rows are those of the golden. each_once: sinks that append have none of them twice."""
    flow, written = site.flow, site.written()
    assert flow.canonical(written) == flow.golden.read_text().splitlines()
    if each_once:
        assert not {sink: rows for sink, rows in flow.repeated(written).items() if rows}
