"""The page of a job with many nodes: a box for each chain, and the nodes of the picked one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from headrace.ui.pages.elements.panels import UNREAD
from support.clusters.session import Cluster
from support.page_browser import visiting

pytestmark = [pytest.mark.broker, pytest.mark.full]

CHAIN, BRANCHES = 6, 3


def pipeline() -> str:
    """A chain of steps, and three branches behind it, each with a chain, a total by key and a sink: 31 nodes."""

    def chain(first: str, name: str) -> Iterator[str]:
        above = first
        for number in range(CHAIN):
            yield f"  {name}_{number}: {{from: {above}, with_columns: {{n: n + 1}}}}"
            above = f"{name}_{number}"

    steps = [*chain("numbers", "common")]
    sinks = []
    for branch in range(BRANCHES):
        steps += [f"  kept_{branch}: {{from: common_{CHAIN - 1}, filter: n % 3 = {branch}}}"]
        steps += [*chain(f"kept_{branch}", f"branch_{branch}")]
        steps += [
            f"  total_{branch}: {{from: branch_{branch}_{CHAIN - 1}, key_by: [n], aggregate: {{rows: count(*)}}}}"
        ]
        sinks += [f"  out_{branch}: {{from: total_{branch}, print: {{}}, format: json}}"]
    head = "name: many-nodes\nsources:\n  numbers:\n    generator: {rate: 50, columns: {n: {sequence: {}}}}\n"
    return "\n".join([f"{head}    schema: {{n: int64}}\nsteps:", *steps, "sinks:", *sinks, ""])


@pytest.fixture
def job(cluster: Cluster) -> Iterator[str]:
    (cluster.folder / "many.yaml").write_text(pipeline())
    found = str(cluster.headrace("submit", str(cluster.folder / "many.yaml"), "--json").json["job_id"])
    cluster.wait_state(found, "RUNNING")
    yield found
    cluster.client.wait_trigger(cluster.client.cancel(found))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_chains_are_boxes(
    job: str, cluster: Cluster, page_url: str, chromium: Browser, width: int, scheme: str
) -> None:
    nodes = [each.node for each in cluster.client.status(job).nodes]
    assert len(nodes) > 30
    with visiting(chromium, page_url, width, scheme) as visitor:
        visitor.open(f"/jobs/{job}")
        visitor.wait_state("RUNNING")
        boxes = visitor.page.locator(".graph .node")
        expect(boxes.first).to_be_visible()
        assert 0 < boxes.count() < len(nodes) / 2
        visitor.wait_plots("rates", "load")
        visitor.looks_right("many-nodes")
        boxes.filter(has_text="numbers").click()
        visitor.button("common_3").click()
        expect(visitor.page.get_by_text("common_3 (with_columns")).to_be_visible()
        for none in (UNREAD, "No subtask of it runs."):
            expect(visitor.page.get_by_text(none)).to_be_hidden()
        visitor.looks_right("many-nodes-picked")
        visitor.behaved()
