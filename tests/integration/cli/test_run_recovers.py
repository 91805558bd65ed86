"""`headrace run` under fire: a slot that dies, and the run itself that dies and is taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from support.local_cluster import processes_of
from support.running import finish, headrace, start, wait_until

ROWS, PARTITIONS = 40_000, 2

PIPELINE = f"""
name: counted
parallelism: 2
checkpoint: {{interval: 200ms}}
sources:
  made:
    generator:
      rows: {ROWS}
      rate: 5000
      partitions: {PARTITIONS}
      columns:
        id: {{sequence: {{start: 1}}}}
        k: {{int: {{min: 0, max: 9}}}}
        at: {{time: {{start: "2024-01-01T00:00:00Z", step: 10ms}}}}
    schema: {{id: int64, k: int64, at: timestamp}}
    time: {{column: at}}
steps:
  sums:
    from: made
    key_by: [k]
    window: {{tumbling: 10s}}
    aggregate: {{n: count(*), total: sum(id)}}
sinks:
  out:
    from: sums
    files: {{path: out}}
    format: json
"""


def rows(folder: Path) -> list[str]:
    """What was written, each row once: sinks are at-least-once."""
    return sorted({line for file in folder.glob("part-*") for line in file.read_text().splitlines()})


def has_checkpoint(home: Path) -> bool:
    records = (home / "checkpoints").glob("*/journal/*.json")
    return any('"kind":"committed"' in record.read_text() for record in records)


def slots(home: Path) -> list[int]:
    return [pid for pid in processes_of(home) if b"headrace-slot" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run writes that nothing happens to."""
    folder = tmp_path_factory.mktemp("straight")
    (folder / "p.yaml").write_text(PIPELINE.replace("      rate: 5000\n", ""))
    finished = headrace(["run", "p.yaml", "--json"], folder)
    assert finished.code == 0, finished.err
    return rows(folder / "out")


def begun(folder: Path) -> subprocess.Popen[str]:
    """A run that has its first checkpoint and much to read."""
    folder.mkdir()
    (folder / "p.yaml").write_text(PIPELINE)
    process = start(["run", "p.yaml", "--json"], folder)
    wait_until(lambda: has_checkpoint(folder / "home"), "a checkpoint is committed")
    return process


def test_a_slot_that_dies_costs_nothing(tmp_path: Path, expected: list[str]) -> None:
    folder = tmp_path / "killed"
    process = begun(folder)
    os.kill(slots(folder / "home")[0], signal.SIGKILL)
    finished = finish(process)
    assert finished.code == 0, finished.err
    summary = json.loads(finished.out)
    assert (summary["state"], summary["rows_in"], summary["rows_out"]) == ("FINISHED", ROWS, len(expected))
    assert rows(folder / "out") == expected
    assert processes_of(folder / "home") == []
    assert not any((folder / "home" / "checkpoints").iterdir()), "nothing is kept of a run that has read everything"


def test_a_run_that_dies_is_taken_up_again(tmp_path: Path, expected: list[str]) -> None:
    folder = tmp_path / "killed"
    process = begun(folder)
    process.kill()
    process.communicate()
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")
    finished = headrace(["run", "p.yaml", "--resume", "--json"], folder)
    assert finished.code == 0, finished.err
    summary = finished.json
    assert (summary["state"], summary["rows_in"], summary["rows_out"]) == ("FINISHED", ROWS, len(expected))
    assert rows(folder / "out") == expected
    refused = headrace(["run", "p.yaml", "--resume"], folder)
    assert refused.code == 2
    assert "no run of counted to resume" in refused.err


def test_ctrl_c_keeps_the_state_and_resume_goes_on(tmp_path: Path, expected: list[str]) -> None:
    folder = tmp_path / "stopped"
    process = begun(folder)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 0, stopped.err
    assert stopped.json["state"] == "CANCELED"
    assert 0 < stopped.json["rows_in"] < ROWS
    assert "headrace run p.yaml --resume" in stopped.err
    finished = headrace(["run", "p.yaml", "--resume", "--json"], folder)
    assert finished.code == 0, finished.err
    assert finished.json["rows_in"] == ROWS
    assert rows(folder / "out") == expected
