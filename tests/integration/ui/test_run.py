"""The page of a run in the foreground: it shows the run, ends it, and ends with it."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser

from support.page_browser import visiting
from support.processes.running import Running, finish, headrace, start, wait_until

pytestmark = pytest.mark.turns(3)

PIPELINE = """\
name: counting
checkpoint: {interval: 500ms}
sources:
  numbers:
    generator: {rate: 200, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out: {from: numbers, files: {path: out}, format: json}
"""


def begun(folder: Path) -> tuple[Running, str]:
    """A run with a page, and the link that it has printed."""
    (folder / "p.yaml").write_text(PIPELINE)
    run = start(["run", "p.yaml", "--ui"], folder)
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("page: "):
            return run, line.removeprefix("page: ").strip()
    raise AssertionError(f"no page was named: {finish(run)}")


def page_of(folder: Path) -> psutil.Process:
    """The process of the page of this folder's home."""
    named = str(folder / "home")
    (found,) = (each for each in psutil.process_iter(["cmdline"]) if _is_page(each.info["cmdline"] or [], named))
    return found


def _is_page(command: list[str], home: str) -> bool:
    return "headrace-ui" in command and home in command


def test_a_run_is_watched_and_stopped_on_its_page(tmp_path: Path, chromium: Browser) -> None:
    run, link = begun(tmp_path)
    page = page_of(tmp_path)
    with visiting(chromium, link, 1280, "light") as visitor:
        visitor.open("/workers/local")
        visitor.wait_text(re.compile(r"== slot local-"))
        visitor.open("/")
        visitor.page.get_by_role("link", name="counting").click()
        visitor.wait_state("RUNNING")
        visitor.wait_plots("rates", "load")
        visitor.looks_right("run")
        visitor.button("Rescale").click()
        visitor.page.get_by_role("dialog").get_by_role("spinbutton").fill("2")
        visitor.confirm("counting", "Rescale the job")
        visitor.wait_text("a run keeps its parallelism")
        visitor.button("Stop").click()
        visitor.confirm("counting", "Stop the job")
        ended = finish(run)
    assert ended.code == 0, ended.err
    assert "go on with: headrace run p.yaml --resume" in ended.err
    assert not page.is_running()


def test_the_page_ends_with_a_killed_run(tmp_path: Path) -> None:
    run, _ = begun(tmp_path)
    page = page_of(tmp_path)
    run.kill()
    finish(run)
    wait_until(lambda: not page.is_running() or page.status() == psutil.STATUS_ZOMBIE, "the page has ended")


def test_threads_have_no_page(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    refused = headrace(["run", "p.yaml", "--threads", "--ui"], tmp_path)
    assert refused.code == 2
    assert "--threads has no page" in refused.err
