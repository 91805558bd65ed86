"""A pipeline for `headrace run` that reads no further than the test lets it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.processes.running import wait_until

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


def checkpointed_attempt(home: Path, job: str = "*") -> int:
    """The newest attempt that has committed a checkpoint with rows in it; 0 before the first."""
    records: list[dict[str, Any]] = []
    for record in (home / "checkpoints").glob(f"{job}/journal/*.json"):
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
    found = [attempt]

    def is_later() -> bool:
        # one look: at the next one its records may be removed while they are read
        found[0] = checkpointed_attempt(home)
        return found[0] > attempt

    wait_until(is_later, f"an attempt after {attempt} commits a checkpoint")
    return found[0]


def written(folder: Path) -> Path:
    """The folder, with the pipeline in it."""
    folder.mkdir()
    (folder / "p.yaml").write_text(PIPELINE)
    (folder / "gate.py").write_text(GATE)
    return folder


def open_gate(folder: Path) -> None:
    """Nothing is held up any more."""
    (folder / "open").touch()
