"""`headrace run` ends when it is asked to, also if no last checkpoint can be taken: at the one before, and goes on from
there exactly."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.clusters.gated_run import open_gate, rows, wait_checkpoint_after, written
from support.clusters.local import processes_of
from support.processes.running import finish, headrace, start, wait_until

TROUBLE = """
import os, time
from pathlib import Path

import gate

HERE = Path(__file__).parent


def held(rows):
    if (HERE / "crash").exists():
        (HERE / "crashed").touch()
        os._exit(3)
    if (HERE / "hang").exists():
        (HERE / "hanging").touch()
        time.sleep(3_600)
    return gate.held(rows)
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run writes that nothing happens to."""
    folder = written(tmp_path_factory.mktemp("straight") / "run")
    open_gate(folder)
    assert headrace(["run", "p.yaml"], folder).code == 0
    return rows(folder / "out")


@pytest.mark.parametrize(
    ("trouble", "sign", "number"),
    [
        ("crash", "crashed", signal.SIGTERM),
        ("hang", "hanging", signal.SIGINT),
        pytest.param("crash", "crashed", signal.SIGINT, marks=pytest.mark.full),
        pytest.param("hang", "hanging", signal.SIGTERM, marks=pytest.mark.full),
    ],
)
def test_it_ends_at_its_last_checkpoint(
    trouble: str, sign: str, number: signal.Signals, tmp_path: Path, expected: list[str]
) -> None:
    folder = written(tmp_path / "run")
    (folder / "trouble.py").write_text(TROUBLE)
    text = (folder / "p.yaml").read_text()
    assert "gate:held" in text
    (folder / "p.yaml").write_text(text.replace("gate:held", "trouble:held"))
    process = start(["run", "p.yaml"], folder)
    wait_checkpoint_after(0, folder / "home")
    (folder / trouble).touch()
    wait_until((folder / sign).exists, "the function is in trouble")
    process.send_signal(number)
    ended = finish(process)
    assert ended.code == 0, ended.err
    assert "headrace run p.yaml --resume" in ended.err
    assert "no last checkpoint could be taken in time" in ended.err
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")

    (folder / trouble).unlink()
    open_gate(folder)
    again = headrace(["run", "p.yaml", "--resume"], folder)
    assert again.code == 0, again.err
    assert rows(folder / "out") == expected


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    (folder / "trouble.py").write_text(TROUBLE)
    (folder / "p.yaml").write_text((folder / "p.yaml").read_text().replace("gate:held", "trouble:held"))
    (folder / "hang").touch()
    process = start(["run", "p.yaml"], folder)
    wait_until((folder / "hanging").exists, "the function hangs")
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    while "stopping" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 128 + signal.SIGTERM
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")
