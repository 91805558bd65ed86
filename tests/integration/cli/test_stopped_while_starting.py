"""`headrace run --savepoint` that is stopped before its subtasks run: nothing claims a savepoint that is not there."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from support.clusters.gated_run import checkpointed_attempt, open_gate, rows, wait_checkpoint_after, written
from support.processes.running import RUN_TIMES, finish, headrace, start, start_with, wait_until

SLOW_TO_DEPLOY = """
here = Path(__file__).parent
# the command plans first, by the same import; a slot, which is a fork without it, then stands here
if (here / "planned").exists():
    (here / "deploying").touch()
    while not OPEN.exists():
        time.sleep(0.05)
(here / "planned").touch()
"""


def slow_to_deploy(folder: Path) -> None:
    """Slots of the next run import the gate only once it is open."""
    for name in ("planned", "deploying", "open"):
        (folder / name).unlink(missing_ok=True)
    gate = (folder / "gate.py").read_text()
    (folder / "gate.py").write_text(gate.replace("\n\ndef held", f"\n{SLOW_TO_DEPLOY}\n\ndef held"))


def stopped_while_starting(folder: Path, *options: str) -> tuple[int, str, str]:
    # the gate holds the slot, so nothing but the kill ends it: that may come soon
    environment = os.environ | RUN_TIMES | {"HEADRACE_HOME": str(folder / "home"), "HEADRACE_CANCEL": "1s"}
    process = start_with(environment, ["run", "p.yaml", "--savepoint", "saved", *options], folder)
    wait_until((folder / "deploying").exists, "a slot plans")
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert not (folder / "saved").exists()
    return ended.code, ended.out, ended.err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_run_that_is_stopped_while_it_starts_says_that_there_is_no_savepoint(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    folder = written(tmp_path / "run")
    slow_to_deploy(folder)
    code, out, err = stopped_while_starting(folder, *options)
    assert code == 1, err
    assert "there is no savepoint: the run was stopped before it began to read" in err
    if options:
        assert json.loads(out)["savepoint"] is None


def test_a_resumed_run_that_is_stopped_while_it_starts_keeps_the_state_that_it_had(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    begun = start(["run", "p.yaml"], folder)
    wait_checkpoint_after(0, folder / "home")
    begun.send_signal(signal.SIGINT)
    assert finish(begun).code == 0
    held = checkpointed_attempt(folder / "home")
    slow_to_deploy(folder)
    code, _, err = stopped_while_starting(folder, "--resume")
    assert code == 1, err
    assert "go on with: headrace run p.yaml --resume" in err
    assert checkpointed_attempt(folder / "home") == held
    open_gate(folder)
    resumed = headrace(["run", "p.yaml", "--resume"], folder)
    assert resumed.code == 0, resumed.err
    assert rows(folder / "out")
