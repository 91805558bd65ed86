"""`headrace run` under fire: a slot that dies, and the run itself that dies and is taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.local_cluster import processes_of
from support.running import finish, headrace, start, wait_until

ROWS, PARTITIONS = 8_000, 2

PIPELINE = f"""
name: counted
parallelism: 2
batch: {{max_rows: 20}}
checkpoint: {{interval: 200ms}}
sources:
  made:
    generator:
      rows: {ROWS}
      partitions: {PARTITIONS}
      columns:
        id: {{sequence: {{start: 1}}}}
        k: {{int: {{min: 0, max: 9}}}}
        at: {{time: {{start: "2024-01-01T00:00:00Z", step: 10ms}}}}
    schema: {{id: int64, k: int64, at: timestamp}}
    time: {{column: at}}
steps:
  held:
    from: made
    map: {{function: "gate:held", schema: {{id: int64, k: int64, at: timestamp}}}}
  sums:
    from: held
    key_by: [k]
    window: {{tumbling: 10s}}
    aggregate: {{n: count(*), total: sum(id)}}
sinks:
  out:
    from: sums
    files: {{path: out}}
    format: json
"""


# until the test opens it, minutes of reading are left; barriers pass between two batches
GATE = """\
import time
from pathlib import Path

OPEN = Path(__file__).with_name("open")


def held(rows):
    if not OPEN.exists():
        time.sleep(0.5)
    return rows
"""


def rows(folder: Path) -> list[str]:
    """What was written, each row once: sinks are at-least-once."""
    return sorted({line for file in folder.glob("part-*") for line in file.read_text().splitlines()})


def has_checkpoint(home: Path) -> bool:
    """Whether one is committed that has rows in it."""
    records: list[dict[str, Any]] = []
    for record in (home / "checkpoints").glob("*/journal/*.json"):
        with suppress(FileNotFoundError):  # old ones are removed
            records.append(json.loads(record.read_text()))
    committed = {each["epoch"] for each in records if each["kind"] == "committed"}
    manifests = [each["manifest"] for each in records if each["kind"] == "checkpoint"]
    return any(
        split["position"] > 0
        for manifest in manifests
        if manifest["epoch"] in committed
        for split in manifest["sources"]["made"]["splits"]
    )


def slots(home: Path) -> list[int]:
    found = []
    for pid in processes_of(home):
        with suppress(OSError):  # it has just ended
            if b"headrace-slot" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def written(folder: Path) -> Path:
    """The folder, with the pipeline in it."""
    folder.mkdir()
    (folder / "p.yaml").write_text(PIPELINE)
    (folder / "gate.py").write_text(GATE)
    return folder


def open_gate(folder: Path) -> None:
    """Nothing is held up any more."""
    (folder / "open").touch()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run writes that nothing happens to."""
    folder = written(tmp_path_factory.mktemp("straight") / "run")
    open_gate(folder)
    finished = headrace(["run", "p.yaml", "--json"], folder)
    assert finished.code == 0, finished.err
    return rows(folder / "out")


def begun(folder: Path) -> subprocess.Popen[str]:
    """A run that has its first checkpoint and much to read."""
    process = start(["run", "p.yaml", "--json"], folder)
    wait_until(lambda: has_checkpoint(folder / "home"), "a checkpoint is committed")
    return process


def test_a_slot_that_dies_costs_nothing(tmp_path: Path, expected: list[str]) -> None:
    folder = written(tmp_path / "killed")
    process = begun(folder)
    os.kill(slots(folder / "home")[0], signal.SIGKILL)
    open_gate(folder)
    finished = finish(process)
    assert finished.code == 0, finished.err
    summary = json.loads(finished.out)
    assert (summary["state"], summary["rows_in"], summary["rows_out"]) == ("FINISHED", ROWS, len(expected))
    assert rows(folder / "out") == expected
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")
    assert not any((folder / "home" / "checkpoints").iterdir()), "nothing is kept of a run that has read everything"


def test_a_run_that_dies_is_taken_up_again(tmp_path: Path, expected: list[str]) -> None:
    folder = written(tmp_path / "killed")
    process = begun(folder)
    process.kill()
    process.communicate()
    open_gate(folder)
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
    folder = written(tmp_path / "stopped")
    process = begun(folder)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    open_gate(folder)
    assert stopped.code == 0, stopped.err
    assert stopped.json["state"] == "CANCELED"
    assert 0 < stopped.json["rows_in"] < ROWS
    assert "headrace run p.yaml --resume" in stopped.err
    finished = headrace(["run", "p.yaml", "--resume", "--json"], folder)
    assert finished.code == 0, finished.err
    assert finished.json["rows_in"] == ROWS
    assert rows(folder / "out") == expected
