"""The pipelines of this folder, undisturbed: always the rows of one golden, and none of them twice.

`pytest --rewrite-goldens` writes the goldens anew, from slots in this process; what they should be the oracle says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.flows.cluster import PARTS
from support.flows.cuts import ends_of, stopping
from support.flows.engines import Stretch, live
from support.flows.in_memory import messages
from support.flows.oracle import expected, rounded
from support.flows.runs import Staged, check, check_rows, every_flow
from support.flows.site import Flow, FlowSite, flows

ON_A_CLUSTER = {"edges", "kafka_idle"}
"""Flows of the commit tier: every kind of edge; partitions whose floors come of their silence."""


@every_flow
def test_in_this_process(
    flow: Flow,
    tmp_path: Path,
    broker_if_needed: Callable[[], EmbeddedBroker],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    site = FlowSite(flow, broker_if_needed, tmp_path / "f")
    monkeypatch.syspath_prepend(str(site.folder))  # the module of the flow's function
    for number in range(len(site.parts)):
        site.feed(number)
    document = site.document()
    ends = ends_of(document, [len(lines) for lines in messages(site.parts)] if site.parts else ())
    live(Stretch(stopping(document, None, ends), 2, closes=True, floors=site.recorded_floors()), site.folder)
    if request.config.getoption("--rewrite-goldens"):
        flow.golden.write_text("".join(f"{line}\n" for line in flow.canonical(site.written())))
    check_rows(site, each_once=True)


@pytest.mark.parametrize(
    "flow",
    [pytest.param(flow, id=flow.name, marks=() if flow.name in ON_A_CLUSTER else pytest.mark.full) for flow in flows()],
)
def test_on_a_cluster(flow: Flow, staged: Staged) -> None:
    stage = staged()
    stage.release(0)
    stage.submit()
    for number in range(1, len(stage.parts) or PARTS):
        stage.settle(number - 1)
        stage.release(number)
    if stage.parts:
        stage.settle(len(stage.parts) - 1)
    stage.finish()
    check(stage, each_once=True)


@every_flow
def test_goldens_are_what_the_oracle_says(flow: Flow) -> None:
    assert rounded(flow) == expected(flow)
