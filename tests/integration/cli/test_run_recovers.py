"""`headrace run` whose slot is killed, which is then killed and stopped itself, and resumed each time."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.local_cluster import processes_of
from support.running import Finished, finish, headrace, start, wait_until

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


# Until the test opens it, a batch takes ever longer, so that no machine is slow enough for the run to reach its end;
# barriers pass between two batches.
GATE = """\
import time
from pathlib import Path

OPEN = Path(__file__).with_name("open")
pause_s = 0.2


def held(rows):
    global pause_s
    if not OPEN.exists():
        time.sleep(pause_s)
        pause_s *= 1.2
    return rows
"""


def rows(folder: Path) -> list[str]:
    """What was written, each row once: sinks are at-least-once."""
    return sorted({line for file in folder.glob("part-*") for line in file.read_text().splitlines()})


def checkpointed_attempt(home: Path) -> int:
    """The newest attempt that has committed a checkpoint with rows in it; 0 before the first."""
    records: list[dict[str, Any]] = []
    for record in (home / "checkpoints").glob("*/journal/*.json"):
        with suppress(FileNotFoundError):  # old ones are removed
            records.append(json.loads(record.read_text()))
    committed = {each["epoch"] for each in records if each["kind"] == "committed"}
    manifests = [each["manifest"] for each in records if each["kind"] == "checkpoint"]
    attempts = [
        int(manifest["attempt"])
        for manifest in manifests
        if manifest["epoch"] in committed
        and any(split["position"] > 0 for split in manifest["sources"]["made"]["splits"])
    ]
    return max(attempts, default=0)


def wait_checkpoint_after(attempt: int, home: Path) -> int:
    """Waits until a later attempt has one; returns that attempt."""
    wait_until(lambda: checkpointed_attempt(home) > attempt, f"an attempt after {attempt} commits a checkpoint")
    return checkpointed_attempt(home)


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


def test_a_run_outlives_a_slot_and_is_resumed_after_a_kill_and_after_ctrl_c(
    tmp_path: Path, expected: list[str]
) -> None:
    folder = written(tmp_path / "run")
    home = folder / "home"
    first = start(["run", "p.yaml", "--json"], folder)
    attempt = wait_checkpoint_after(0, home)
    os.kill(slots(home)[0], signal.SIGKILL)
    attempt = wait_checkpoint_after(attempt, home)

    first.kill()
    first.communicate()
    wait_until(lambda: processes_of(home) == [], "no process is left of it")
    second = start(["run", "p.yaml", "--resume", "--json"], folder)
    wait_checkpoint_after(attempt, home)

    second.send_signal(signal.SIGINT)
    stopped = finish(second)
    assert stopped.code == 0, stopped.err
    assert stopped.json["state"] == "CANCELED"
    assert 0 < stopped.json["rows_in"] < ROWS
    assert "headrace run p.yaml --resume" in stopped.err

    open_gate(folder)
    finished = headrace(["run", "p.yaml", "--resume", "--json"], folder)
    require_finished(finished, folder, expected)


def require_finished(finished: Finished, folder: Path, expected: list[str]) -> None:
    """The run has read and written everything, has left nothing, and cannot be resumed again."""
    assert finished.code == 0, finished.err
    summary = finished.json
    assert (summary["state"], summary["rows_in"], summary["rows_out"]) == ("FINISHED", ROWS, len(expected))
    assert rows(folder / "out") == expected
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")
    assert not any((folder / "home" / "checkpoints").iterdir()), "nothing is kept of a run that has read everything"
    refused = headrace(["run", "p.yaml", "--resume"], folder)
    assert refused.code == 2
    assert "no run of counted to resume" in refused.err
