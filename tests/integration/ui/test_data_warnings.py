"""Data that looks wrong, of each kind, in each place that says so: `run`, `status`, the job's log and its page."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
from playwright.sync_api import Browser, expect

from headrace.coordinator.figures.data_warnings import Kind
from headrace.rpc.figures import FIRST_ROWS_MAX
from headrace_dev.broker import EmbeddedBroker
from integration.ui.conftest import submitted
from support.clusters.session import Cluster
from support.kafka.broker import create_topic, produce, unique_topic
from support.page_browser import visiting
from support.processes.running import WAIT_SECONDS, start, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.full]

SOURCE = """\
  {name}:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{k: string, x: int64, at: timestamp}}
    time: {{column: at, out_of_orderness: 0s}}
"""
KINDS = set(get_args(Kind)) - {"state-over-budget", "growing-state"}
"""Those two take a state that is large, or that grows for long: `unit/local/engine/test_state_pressure`,
`unit/coordinator/figures/test_state_growth`."""
DAY_MS = 86_400_000
ROWS = FIRST_ROWS_MAX
"""Columns and filters are judged once so many rows are read, else after a minute."""


@dataclass(frozen=True)
class Wrong:
    """A pipeline whose sources have wrong data, and of each kind of it what its warning says."""

    text: str
    said: dict[str, str]


def rows(times_ms: Sequence[int], *, column: str = "x") -> list[str]:
    return [json.dumps({"k": f"k{n % 3}", column: n, "at": at_ms}) for n, at_ms in enumerate(times_ms)]


@pytest.fixture(scope="module")
def wrong(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Wrong:
    topic, now_ms = unique_topic("wrong"), int(time.time() * 1_000)
    topics = {name: f"{topic}-{name}" for name in ("old", "future", "late", "quiet")}
    for name, each in topics.items():
        create_topic(broker, each, 2 if name == "quiet" else 1)
    # a misspelt column, and seconds that are read as milliseconds
    produce(broker, topics["old"], rows([now_ms // 1_000 + n for n in range(ROWS)], column="y"))
    produce(broker, topics["future"], rows([now_ms + DAY_MS + n for n in range(100)]))
    late_ms = [now_ms - DAY_MS + 60_000 * n - (7_200_000 if n % 4 == 0 and n > 200 else 0) for n in range(1_000)]
    produce(broker, topics["late"], rows(late_ms))
    produce(broker, topics["quiet"], rows([now_ms + n for n in range(100)]), partition=0)

    # a file that lacks a column of the schema
    bills = tmp_path_factory.mktemp("bills") / "bills.csv"
    bills.write_text("id,sum\n1,2\n")

    sources = "".join(SOURCE.format(name=name, brokers=broker.bootstrap, topic=each) for name, each in topics.items())
    sources += (
        f"  bills: {{files: {{path: {bills}}}, format: {{csv: {{header: true}}}}, "
        "schema: {id: int64, amount: float64}}\n"
    )
    text = (
        f"name: {topic}\ncheckpoint: {{interval: 1s}}\nsources:\n{sources}"
        "steps:\n"
        "  nobody: {from: old, filter: \"k = 'K1'\"}\n"
        "  all: {union: [future, quiet]}\n"
        "  hourly: {from: late, key_by: [k], window: {tumbling: 1h}, aggregate: {rows: count(*)}}\n"
        "sinks:\n"
        + "".join(
            f"  {name}_out: {{from: {name}, files: {{path: {topic}-{name}}}, format: json}}\n"
            for name in ("nobody", "all", "hourly", "bills")
        )
    )
    said = {
        "input": "bills.csv has no column amount: ",
        "null-column": "source old: column x is NULL in all of the first ",
        "times-in-1970": "rows is in 1970 (up to ",
        "times-in-future": f"source future: partition 0 of {topics['future']} has event times in the future",
        "late-rows": "came after their window was closed: half of them by more than",
        "quiet-partition": f"source quiet: partition 1 of {topics['quiet']} holds time back since",
        "standing-time": "hourly: event time stands still since ",
        "filter-passes-nothing": "filter nobody has let none of its first ",
    }
    assert said.keys() == KINDS
    return Wrong(text, said)


def test_a_run_says_each_kind_once(wrong: Wrong, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(wrong.text)
    printed: list[str] = []
    with start(["run", "p.yaml"], tmp_path) as running:
        reader = threading.Thread(target=lambda: printed.extend(running.stderr or ()))
        reader.start()
        try:
            wait_until(lambda: not missing(wrong, printed) or running.poll() is not None, "warnings of each kind")
            running.send_signal(signal.SIGINT)
            code = running.wait(WAIT_SECONDS)
        finally:
            if running.poll() is None:
                running.kill()
            reader.join()
    whole = "".join(printed)
    assert (code, missing(wrong, printed)) == (0, []), whole
    assert {kind: whole.count(text) for kind, text in wrong.said.items()} == dict.fromkeys(KINDS, 1), whole


def missing(wrong: Wrong, lines: Sequence[str]) -> list[str]:
    """The warnings that no line has."""
    return [text for text in wrong.said.values() if not any(text in line for line in lines)]


def test_a_job_says_each_kind_in_its_status_its_log_and_on_its_page(
    wrong: Wrong, cluster: Cluster, page_url: str, chromium: Browser
) -> None:
    job = submitted(cluster, "wrong", wrong.text)
    try:
        in_each_place(wrong, cluster, job, page_url, chromium)
    finally:
        cluster.headrace("cancel", job)


def in_each_place(wrong: Wrong, cluster: Cluster, job: str, page_url: str, chromium: Browser) -> None:
    wait_until(lambda: {each.kind for each in cluster.client.status(job).warnings} == KINDS, "warnings of each kind")

    document = cluster.headrace("status", job, "--json").json
    assert sorted(each["kind"] for each in document["warnings"]) == sorted(KINDS)
    assert {each["kind"]: wrong.said[each["kind"]] in each["text"] for each in document["warnings"]} == dict.fromkeys(
        KINDS, True
    )
    told = [line for line in cluster.headrace("status", job).out.splitlines() if line.startswith("  warning: ")]
    log = cluster.headrace("logs", job).out
    for text in wrong.said.values():
        assert sum(text in line for line in told) == 1, told
        assert log.count(text) == 1, log
    with visiting(chromium, page_url, 390, "light") as visitor:
        visitor.open(f"/jobs/{job}")
        for text in wrong.said.values():
            expect(visitor.page.locator(".note.warning", has_text=text)).to_have_count(1)
        expect(visitor.page.locator(".verdict")).to_contain_text("holds time back")
        expect(visitor.page.locator(".verdict")).to_contain_text("Remedy: set `time: {.., idle_after: 30s}`")
        visitor.looks_right("data-warnings")
        visitor.behaved()
