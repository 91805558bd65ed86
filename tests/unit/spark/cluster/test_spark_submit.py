"""spark-submit is watched: its log is passed on, and an interrupt ends the application that it has started. Both
programs are small scripts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headrace.spark.cluster import spark_submit
from headrace.spark.cluster.spark_submit import Ended, SubmittedDriver

APPLICATION = "application_1700000000000_0007"


def installed(folder: Path, body: str) -> str:
    """A `spark-submit` of that body, and a `spark-class` that notes what it was given."""
    for name, text in (("spark-submit", body), ("spark-class", f'echo "$@" > {folder}/ended')):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return str(folder / "spark-submit")


def test_its_log_is_passed_on_and_the_application_known(tmp_path: Path) -> None:
    said: list[str] = []
    command = [installed(tmp_path, f"echo 'INFO Submitted {APPLICATION}' >&2; echo \"$1\" >&2; exit 1"), "--master"]
    assert SubmittedDriver(command, said.append).run() == Ended(1, APPLICATION)
    assert said == [f"INFO Submitted {APPLICATION}", "--master"]


def test_nothing_of_it_is_on_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    command = [installed(tmp_path, "echo 'WARN NativeCodeLoader: Unable to load'; exit 0")]
    assert SubmittedDriver(command, said.append).run() == Ended(0, None)
    assert said == ["WARN NativeCodeLoader: Unable to load"]
    assert capfd.readouterr().out == ""


def test_an_interrupt_ends_the_application(tmp_path: Path) -> None:
    command = [installed(tmp_path, f"echo 'INFO Submitted {APPLICATION}' >&2; exec sleep 60")]

    def interrupt(line: str) -> None:
        if "Submitted" in line:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        SubmittedDriver(command, interrupt).run()
    ended = (tmp_path / "ended").read_text().split()
    assert ended == ["org.apache.hadoop.yarn.client.cli.ApplicationCLI", "application", "-kill", APPLICATION]


def test_a_cluster_that_does_not_answer_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "_KILL_SECONDS", 0.2)
    command = [installed(tmp_path, f"echo 'INFO Submitted {APPLICATION}' >&2; exec sleep 600")]
    (tmp_path / "spark-class").write_text("#!/bin/sh\nexec sleep 600\n")
    said: list[str] = []

    def interrupt(line: str) -> None:
        said.append(line)
        if "Submitted" in line:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        SubmittedDriver(command, interrupt).run()
    assert said[-1].endswith(f"it may go on: yarn application -kill {APPLICATION}")


def test_nothing_is_ended_before_there_is_an_application(tmp_path: Path) -> None:
    command = [installed(tmp_path, "echo hello >&2; exec sleep 60")]

    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SubmittedDriver(command, interrupt).run()
    assert not (tmp_path / "ended").exists()
