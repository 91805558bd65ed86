"""What the page asks the brokers, the dead letters, the audit and a worker for, by its buttons; a job is stopped."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from headrace_dev.broker import EmbeddedBroker
from integration.ui.conftest import submitted
from support.clusters.session import Cluster
from support.kafka.broker import create_topic, produce, unique_topic
from support.page_browser import Visitor, visiting
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.full]

PIPELINE = """\
name: exact
checkpoint: {{interval: 1s}}
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{n: int64 not null}}
    on_error: {{dead_letter: {topic}-dead}}
sinks:
  out:
    from: numbers
    kafka: {{brokers: "{brokers}", topic: {topic}-out, delivery: exactly-once, create_topic: {{partitions: 1}}}}
    format: json
"""


def asked(visitor: Visitor, path: str, button: str, answer: str | None) -> None:
    """Opens a page, presses its button, and waits for the answer: a row that has this; None: any number of rows."""
    visitor.open(path)
    visitor.button(button).click()
    if answer is None:
        visitor.wait_text(re.compile(r"^\d+ found\.$"))
    else:
        expect(visitor.page.locator("tbody tr", has_text=answer).first).to_be_visible()
    visitor.looks_right(button.lower().replace(" ", "-"))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_the_page_answers_about_output_and_workers_and_stops_a_job(
    cluster: Cluster, broker: EmbeddedBroker, page_url: str, chromium: Browser, width: int, scheme: str
) -> None:
    topic = create_topic(broker, unique_topic("exact"), 1)
    create_topic(broker, f"{topic}-dead", 1)
    produce(broker, topic, [*(f'{{"n": {n}}}' for n in range(20)), '{"n": "many"}'])
    job = submitted(cluster, topic, PIPELINE.format(brokers=broker.bootstrap, topic=topic))
    cluster.wait_state(job, "RUNNING")
    wait_until(lambda: any(node.bad == 1 for node in cluster.client.status(job).nodes), "the bad row is read")
    epoch = max((each.epoch for each in cluster.client.checkpoints(job)), default=0)
    wait_until(lambda: any(each.epoch > epoch + 1 for each in cluster.client.checkpoints(job)), "a checkpoint behind")

    with visiting(chromium, page_url, width, scheme) as visitor:
        asked(visitor, f"/jobs/{job}/transactions", "Ask the brokers", None)  # one is open for a moment at a time
        asked(visitor, f"/jobs/{job}/dead-letters", "Read them", f"{topic}[0]")
        asked(visitor, f"/jobs/{job}/audit", "Run the audit", "proven")
        visitor.open("/workers")
        visitor.page.locator("tbody tr a").first.click()
        visitor.button("Dump the stacks").click()
        expect(visitor.page.locator(".trace", has_text="most recent call first").first).to_be_visible()
        visitor.looks_right("worker")
        visitor.open(f"/jobs/{job}")
        visitor.button("Stop").click()
        visitor.confirm("exact", "Stop the job")
        visitor.wait_state("FINISHED")
        visitor.behaved()
