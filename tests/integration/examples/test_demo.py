"""`headrace demo` from the outside: what it tells, how it ends, and that nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from support.processes.running import WAIT_SECONDS

pytestmark = pytest.mark.turns(2)

TRIES = 3
STOPPED = "nothing is left behind"
LAST_STAGE = "compare with a batch query"
DEMO = [sys.executable, "-m", "headrace", "demo", "--no-live"]


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path), "HEADRACE_HOME": str(tmp_path / "home")}


@pytest.mark.broker
def test_every_flight_is_counted_or_late_and_every_window_is_right(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--rows", "5000", "--json"], capture_output=True, text=True, env=environment(tmp_path), check=False
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["flights"], told["rows"], told["differences"]) == (5000, 5000, [])
    assert told["late"] > 0
    assert told["counted"] + told["late"] + told["cancelled"] == 5000
    assert LAST_STAGE in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.broker
@pytest.mark.parametrize(
    ("number", "stage"),
    [
        pytest.param(signal.SIGINT, "start the broker", id="broker", marks=pytest.mark.full),
        pytest.param(signal.SIGINT, "run the pipeline", id="pipeline"),
        pytest.param(signal.SIGTERM, "run it again", id="terminated", marks=pytest.mark.full),
    ],
)
def test_a_stopped_demonstration_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, stage: str) -> None:
    for _ in range(TRIES):
        told, code = _stopped_at(stage, number, tmp_path)
        assert list(tmp_path.iterdir()) == []
        assert _running_below(tmp_path) == []
        if STOPPED in told or LAST_STAGE not in told:
            break
        # the signal came when all was done: this process may have been held up between its line and the signal
    assert STOPPED in told, told
    assert code == 128 + number


def _stopped_at(stage: str, number: signal.Signals, tmp_path: Path) -> tuple[str, int]:
    """What it tells after that stage has begun and it was sent the signal, and its exit code."""
    with subprocess.Popen(
        [*DEMO, "--rows", "5000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    ) as process:
        watchdog = threading.Timer(WAIT_SECONDS, process.kill)
        watchdog.start()
        try:
            assert process.stderr is not None
            assert any(stage in line for line in process.stderr), f"it never came to {stage}"
            process.send_signal(number)
            return process.stderr.read(), process.wait()
        finally:
            watchdog.cancel()
            process.kill()


def _running_below(folder: Path) -> list[bytes]:
    """Command lines of processes that name the folder."""
    mark = os.fsencode(f"-Dheadrace.data={folder}")
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found.append(entry.read_bytes())
    return [line for line in found if mark in line]
