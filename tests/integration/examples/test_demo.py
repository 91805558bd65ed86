"""`headrace demo` from the outside: what it tells, how it ends, and that nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

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
    assert "compare with a batch query" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.broker
@pytest.mark.parametrize(
    ("number", "stage"),
    [(signal.SIGINT, "start the broker"), (signal.SIGINT, "run the pipeline"), (signal.SIGTERM, "run it again")],
    ids=["broker", "pipeline", "terminated"],
)
def test_a_stopped_demonstration_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, stage: str) -> None:
    process = subprocess.Popen(
        [*DEMO, "--rows", "5000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        assert any(stage in line for line in process.stderr)
        process.send_signal(number)
        assert "nothing is left behind" in process.stderr.read()
        assert process.wait() == 128 + number
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    assert list(tmp_path.iterdir()) == []
    assert _running_below(tmp_path) == []


def _running_below(folder: Path) -> list[str]:
    """Command lines of processes that name the folder."""
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"-Dheadrace.data={folder}" in line]
