"""All pages in both widths and schemes; a failing job; a slow subtask; an upgrade; a token and TLS; what it costs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, expect

from headrace.tls.files import TlsFiles
from headrace_dev.broker import EmbeddedBroker
from integration.ui.conftest import Flights, submitted
from support.certificates import Authority
from support.clusters.session import Cluster, running_cluster
from support.kafka.broker import create_topic, produce, unique_topic
from support.page_browser import PICTURES, SIZES, Visitor, serving_page, visiting
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.full]

JOBS, TIMES_MAX = 10, 2.5
TABS = ("", "/state", "/checkpoints", "/exceptions", "/transactions", "/dead-letters", "/audit", "/log", "/upgrade")
FAILING = """\
name: failing
restart: {{strategy: none}}
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}, start: earliest}}
    format: json
    schema: {{n: int64 not null}}
    on_error: fail
sinks:
  out: {{from: numbers, print: {{}}, format: json}}
"""
COUNTING = """\
name: counting-{number}
sources:
  numbers:
    generator: {{rate: 20, columns: {{n: {{sequence: {{}}}}}}}}
    schema: {{n: int64}}
sinks:
  out: {{from: numbers, print: {{}}, format: json}}
"""
PER_KIND = """\
name: per-kind
checkpoint: {interval: 1s}
sources:
  numbers:
    generator: {rate: 100, columns: {n: {sequence: {}}}}
    schema: {n: int64}
steps:
  kinds: {from: numbers, with_columns: {kind: n % 3}}
  counted: {from: kinds, key_by: [kind], aggregate: {rows: count(*)}}
sinks:
  out: {from: counted, print: {}, format: json}
"""


@pytest.fixture(scope="module")
def job(cluster: Cluster, flights: Flights) -> Iterator[str]:
    """The flights, running and with a checkpoint."""
    found = submitted(cluster, "flights", flights.text)
    cluster.wait_state(found, "RUNNING")
    wait_until(
        lambda: any(each.slowest for each in cluster.client.checkpoints(found)), "a checkpoint with its subtasks"
    )
    yield found
    cluster.client.wait_trigger(cluster.client.cancel(found))


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_looks_right(job: str, page_url: str, chromium: Browser, width: int, scheme: str) -> None:
    with visiting(chromium, page_url, width, scheme) as visitor:
        for path in ("/", "/workers", "/submit"):
            visitor.open(path)
            visitor.looks_right(path.strip("/") or "jobs")
        for tab in TABS:
            visitor.open(f"/jobs/{job}{tab}")
            visitor.wait_state("RUNNING")
            if tab == "":
                visitor.wait_plots("rates", "lag", "load", "watermark")
            if tab == "/checkpoints":
                visitor.wait_plots("durations", "sizes")
            if tab == "/exceptions":
                visitor.wait_text("The job has not failed.")
            visitor.looks_right(f"job{tab.replace('/', '-')}")
        for button in ("Rescale", "Stop", "Cancel"):
            visitor.open(f"/jobs/{job}")
            visitor.button(button).click()
            expect(visitor.page.get_by_role("dialog")).to_be_visible()
            visitor.looks_right(f"dialog-{button.lower()}")
        visitor.behaved()


def test_a_failing_job_shows_the_place_of_its_record(
    cluster: Cluster, broker: EmbeddedBroker, page_url: str, chromium: Browser
) -> None:
    topic = create_topic(broker, unique_topic("failing"))
    produce(broker, topic, ['{"n": 1}', '{"n": 2}', '{"n": "three"}'])
    (cluster.folder / "failing.yaml").write_text(FAILING.format(brokers=broker.bootstrap, topic=topic))
    cluster.headrace("submit", str(cluster.folder / "failing.yaml"), "--wait")
    found = next(each for each in cluster.client.jobs() if each.name == "failing")
    assert found.state == "FAILED"
    for width, scheme in ((1280, "light"), (390, "dark")):
        with visiting(chromium, page_url, width, scheme) as visitor:
            visitor.open(f"/jobs/{found.job_id}/exceptions")
            visitor.wait_state("FAILED")
            record = visitor.page.locator(".facts", has_text="Record").last
            expect(record).to_contain_text(f"{topic}[0] offset 2")
            visitor.looks_right("failure")
            visitor.behaved()


def test_the_slowest_subtask_of_a_checkpoint_comes_first(
    job: str, cluster: Cluster, page_url: str, chromium: Browser
) -> None:
    with visiting(chromium, page_url, 1280, "light") as visitor:
        visitor.open(f"/jobs/{job}/checkpoints")
        panel = visitor.page.locator(".panel", has_text="Slowest subtasks")
        expect(panel.locator("tbody tr").first).to_be_visible()
        epoch = int(panel.get_by_label("Checkpoint").input_value())
        info = next(each for each in cluster.client.checkpoints(job) if each.epoch == epoch)
        rows = [row.locator("td").all_inner_texts() for row in panel.locator("tbody tr").all()]
        assert [(row[0], row[1]) for row in rows] == [(each.task, str(each.subtask)) for each in info.slowest]
        assert [each.took_ms for each in info.slowest] == sorted((each.took_ms for each in info.slowest), reverse=True)


def test_a_job_is_upgraded_once_the_verdicts_allow_it(
    cluster: Cluster, page_url: str, chromium: Browser, tmp_path: Path
) -> None:
    before = submitted(cluster, "per-kind", PER_KIND)
    wait_until(lambda: cluster.client.status(before).checkpoint is not None, "a checkpoint to judge")
    renamed = PER_KIND.replace("counted", "tallied")
    wider = PER_KIND.replace("  kinds:", "  odd: {from: kinds, filter: n % 2 = 1}\n  kinds:").replace(
        "from: kinds, key_by", "from: odd, key_by"
    )
    with visiting(chromium, page_url, 1280, "light") as visitor:
        visitor.open(f"/jobs/{before}/upgrade")
        visitor.wait_state("RUNNING")
        choose(visitor, renamed)
        visitor.button("Upgrade").last.click()  # the first one leads here
        visitor.wait_text("The pipeline cannot go on from this state: see the verdicts.")
        assert verdict_on(visitor, "counted") == "dropped"
        visitor.looks_right("upgrade-refused")

        choose(visitor, wider)
        visitor.button("Upgrade").last.click()  # the first one leads here
        visitor.confirm("per-kind", "Upgrade the job")
        visitor.page.wait_for_url(re.compile(rf"/jobs/(?!{before})[0-9a-f]+$"))
        visitor.wait_state("RUNNING")
        visitor.behaved()
        after = visitor.page.url.rpartition("/")[2]
    assert cluster.client.status(before).state == "FINISHED"
    assert {each.node for each in cluster.client.status(after).nodes} >= {"odd", "counted"}
    cluster.client.wait_trigger(cluster.client.cancel(after))


def choose(visitor: Visitor, text: str) -> None:
    """Puts a pipeline into the form, as a file."""
    visitor.page.set_input_files(
        "input[type=file]", {"name": "p.yaml", "mimeType": "text/yaml", "buffer": text.encode()}
    )
    last = text.split("steps:")[1].split("{", maxsplit=1)[0].strip().splitlines()[-1].strip()
    expect(visitor.page.locator(".cm-content")).to_contain_text(last)


def verdict_on(visitor: Visitor, node: str) -> str:
    """The verdict that the table has on a node's state."""
    row = visitor.page.locator("tbody tr", has=visitor.page.get_by_text(node, exact=True))
    return row.locator("td").nth(1).inner_text()


def test_a_page_with_tls_and_a_token_lets_nobody_else_in(
    cluster: Cluster, job: str, chromium: Browser, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("page")
    files = TlsFiles(issued.certificate, issued.key, authority.certificate)
    token = tmp_path / "token"
    token.write_text("the token of tests\n")
    options = ("--token-file", str(token), *files.arguments())
    with serving_page(cluster, *options) as (_, url), visiting(chromium, url, 390, "light") as visitor:
        assert url.startswith("https://")
        expect(visitor.page.get_by_label("Token of this page")).to_be_visible()
        visitor.page.get_by_label("Token of this page").fill("another token")
        visitor.button("Open").click()
        visitor.wait_text("That is not the token.")
        visitor.page.goto(f"{url}/jobs/{job}")
        assert visitor.page.url == f"{url}/login"
        visitor.complaints.clear()  # of the refused tries
        visitor.page.get_by_label("Token of this page").fill("the token of tests")
        visitor.button("Open").click()
        visitor.page.wait_for_url(f"{url}/")
        (cookie,) = visitor.page.context.cookies()
        assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
        visitor.open(f"/jobs/{job}")
        visitor.wait_state("RUNNING")
        visitor.behaved()


def test_a_page_open_on_ten_jobs_costs_the_coordinator_little(chromium: Browser, tmp_path: Path) -> None:
    """A visitor on each job, for half a minute. What that costs is set against what the jobs cost, because a share of a
    core depends on the core: on a quiet machine 1.6 % of it, 1.5 times as much as without a page. A poll for each page
    would cost ten times as much."""
    with running_cluster(tmp_path, workers=1, slots=JOBS) as cluster, serving_page(cluster) as (_, url):
        jobs = [submitted(cluster, f"counting-{at}", COUNTING.format(number=at)) for at in range(JOBS)]
        for job in jobs:
            cluster.wait_state(job, "RUNNING")
        before = _share_of_a_core(cluster.coordinator())
        with visiting(chromium, url, 1280, "light") as first:
            pages = [first.page, *(first.page.context.new_page() for _ in jobs[1:])]
            for page, job in zip(pages, jobs, strict=True):
                page.goto(f"{first.base}/jobs/{job}")
                expect(page.get_by_label("state")).to_have_text("RUNNING")
            during = _share_of_a_core(cluster.coordinator())
        for job in jobs:
            cluster.client.wait_trigger(cluster.client.cancel(job))
    shares = f"{during:.4f} of a core with {JOBS} pages, {before:.4f} without"
    (PICTURES / "cost.txt").write_text(f"{shares}\n")
    assert during <= TIMES_MAX * before, shares


def _share_of_a_core(pid: int, seconds: float = 30.0) -> float:
    """CPU time of a process over the next seconds, as a share of that time."""
    begun_s, begun = time.monotonic(), _cpu_seconds(pid)
    wait_until(lambda: time.monotonic() - begun_s >= seconds, "the time of the measurement")
    return (_cpu_seconds(pid) - begun) / (time.monotonic() - begun_s)


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
