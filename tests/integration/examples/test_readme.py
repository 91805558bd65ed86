"""The README runs as it stands: its pipeline and its commands, in a new HOME, with nothing prepared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.network_hosts import Namespace
from support.pages.blocks import blocks
from support.processes.running import WAIT_SECONDS, wait_until
from support.processes.terminal import Terminal
from support.repository import ROOT

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]

FLIGHTS = 336_776
PAGE = (ROOT / "README.md").read_text()
BLOCKS = list(blocks([Path("README.md")]))
(PIPELINE,) = [block.text for block in BLOCKS if block.is_pipeline]


def commands(first: str) -> list[str]:
    """Those of the block that begins with this word, or these, without comments."""
    (found,) = [block for block in BLOCKS if block.is_commands and block.commands()[0].startswith(first)]
    return [line.partition("  #")[0].strip() for line in found.commands()]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    network = Namespace()
    opened = Terminal(tmp_path, network)
    (tmp_path / "delays.yaml").write_text(PIPELINE)
    try:
        yield opened
    finally:
        opened.run("headrace kafka down")
        network.close()


@pytest.fixture
def cluster(terminal: Terminal) -> Iterator[Terminal]:
    """Commands of a cluster run there; it is stopped at the end."""
    try:
        yield terminal
    finally:
        terminal.begin("headrace cluster stop").wait(WAIT_SECONDS)


def delays(terminal: Terminal) -> int:
    """Messages in the result topic; 0 if there is none yet."""
    topics = json.loads(terminal.run("headrace kafka topics --json"))["topics"]
    return sum(topic["messages"] for topic in topics if topic["name"] == "delays")


def test_the_first_pipeline_runs_as_it_stands(terminal: Terminal) -> None:
    up, validate, explain, run, consume = commands("headrace kafka up")
    assert f"made topic flights: {FLIGHTS:,} messages in 3 partitions" in terminal.run(up)
    assert f"topic flights has the sample already: {FLIGHTS:,} messages" in terminal.run(up)
    assert "valid" in terminal.run(validate)
    assert "hourly" in terminal.run(explain)
    shown = terminal.run_until(run, lambda: delays(terminal) > 0, "the first windows are in the topic")
    assert "STOPPED" in shown
    rows = [json.loads(line) for line in terminal.run(consume).splitlines()]
    assert len(rows) == 5
    assert {row["origin"] for row in rows} <= {"EWR", "JFK", "LGA"}

    parallel, resumed, saved = commands("headrace run delays.yaml --parallelism")
    _one_killed_slot_is_replaced(terminal, parallel)
    assert "STOPPED" in terminal.run_until(resumed, lambda: _is_running(terminal), "it goes on")
    terminal.run(saved)
    assert list((terminal.folder / "saved").glob("savepoint-*"))

    terminal.run("headrace kafka produce flights delays.yaml")
    assert terminal.begin(up).wait(WAIT_SECONDS) == 2
    assert "exists and does not have the sample" in terminal.printed()
    assert terminal.printed().count("headrace kafka delete flights") == 1
    (delete,) = re.findall(r"`(headrace kafka delete [^`]+)`", PAGE)
    assert terminal.run(delete) == "deleted topic flights\ndeleted topic delays\n"


def _one_killed_slot_is_replaced(terminal: Terminal, run: str) -> None:
    (kill,) = re.findall(r"`(pkill -9 -n [^`]+)`", PAGE)
    before = delays(terminal)
    killed: list[int] = []

    def is_replaced() -> bool:
        if not killed and delays(terminal) > before:
            terminal.run(kill)
            killed.append(delays(terminal))
        goes_on = "restart" in (terminal.folder / "run-err.txt").read_text() and _is_running(terminal)
        return bool(killed) and goes_on and _has_checkpoints(terminal)

    terminal.run_until(run, is_replaced, "another slot goes on")
    assert killed


def _has_checkpoints(terminal: Terminal) -> bool:
    """Whether each run has a complete checkpoint. One that is stopped before its first has nothing to resume."""
    return all(
        any('"kind":"checkpoint"' in record.read_text() for record in job.glob("journal/*.json"))
        for job in (terminal.folder / ".headrace/checkpoints").iterdir()
    )


def _is_running(terminal: Terminal) -> bool:
    """Whether the last line of the run's screen is progress."""
    lines = (terminal.folder / "run-err.txt").read_text().splitlines()
    return bool(lines) and "rows/s" in lines[-1]


@pytest.mark.full
def test_the_commands_of_a_cluster(cluster: Terminal) -> None:
    cluster.run(commands("headrace kafka up")[0])
    typed = commands("headrace cluster start")
    start, submit, status, kill, savepoint, rescale, change, upgrade, stop, end = typed
    cluster.run(start)
    job = cluster.run(submit).strip()
    _wait_running(cluster, 1)
    assert job in cluster.run(status)
    cluster.run(kill)
    _wait_running(cluster, 2)
    assert Path(cluster.run(savepoint).strip()).is_dir()
    cluster.run(rescale)
    _wait_running(cluster, 3)
    cluster.run(change)
    cluster.run(upgrade)
    _wait_running(cluster, 1)  # it is another job
    assert "late" in cluster.run(status)
    assert Path(cluster.run(stop).strip()).is_dir()
    cluster.run(end)
    assert delays(cluster) > 0


@pytest.mark.full
def test_history_on_spark_and_the_job_behind_it(cluster: Terminal) -> None:
    cluster.run(commands("headrace kafka up")[0])
    (change,) = [each for each in commands("headrace cluster start") if each.startswith("sed ")]
    cluster.run(change)
    replay, submit = commands("headrace replay")
    cluster.run(replay)
    published = delays(cluster)
    assert published > 0
    (saved,) = (cluster.folder / "saved").glob("savepoint-*")
    cluster.run(commands("headrace cluster start")[0])
    cluster.run(submit.replace("saved/savepoint-..", str(saved)))
    _wait_running(cluster, 1)
    assert delays(cluster) == published, "nothing twice"


def _wait_running(terminal: Terminal, attempt: int) -> None:
    """Waits until the job runs in at least this attempt."""

    def does() -> bool:
        said = json.loads(terminal.run("headrace status flight-delays --json"))
        return bool(said["state"] == "RUNNING" and said["attempt"] >= attempt)

    wait_until(does, f"attempt {attempt} runs")
