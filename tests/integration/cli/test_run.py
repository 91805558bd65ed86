from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.processes.running import WAIT_SECONDS, finish, start

from .conftest import Headrace

pytestmark = pytest.mark.turns(3)


def written(folder: Path) -> list[dict[str, object]]:
    lines = [line for file in sorted(folder.glob("part-*")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_run_writes_the_windows_and_sums_up(headrace: Headrace, pipeline: Path, tmp_path: Path) -> None:
    result = headrace("run", str(pipeline), "--json")

    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary.pop("seconds") >= summary.pop("running_seconds") > 0
    assert summary.pop("rows_in_per_s") > 0
    assert summary == {
        "state": "FINISHED",
        "rows_in": 5,
        "rows_out": 3,
        "late": 1,
        "bad": 0,
        "savepoint": None,
        "ended_by": "input",
    }
    assert sorted(
        (str(row["station"]), str(row["window_start"]), row["rides"], row["mean"]) for row in written(tmp_path / "out")
    ) == [
        ("a", "2024-05-01T08:00:00.000Z", 1, 10.0),
        ("a", "2024-05-01T09:00:00.000Z", 1, 20.0),
        ("b", "2024-05-01T08:00:00.000Z", 1, 4.5),
    ]


def test_the_summary_for_people_is_one_line_on_stderr(headrace: Headrace, pipeline: Path) -> None:
    result = headrace("run", str(pipeline), "--parallelism", "2", "--threads")

    assert result.exit_code == 0
    assert result.stdout == "", "it is for rows"
    (summary,) = [line for line in result.stderr.splitlines() if line.startswith("FINISHED")]
    assert summary.startswith("FINISHED: 5 rows in, 3 out, 1 late, 0 bad, ")


def test_rows_of_several_slots_can_be_piped(tmp_path: Path) -> None:
    """Standard output of slots and command is one pipe: every line of it is a whole row."""
    (tmp_path / "rows.yaml").write_text("""
name: rows
sources:
  n:
    generator: {rows: 30000, partitions: 2, columns: {n: {sequence: {start: 0}}, s: {string: {length: 60}}}}
    schema: {n: int64, s: string}
sinks:
  out: {from: n, print: {}}
""")
    ended = finish(start(["run", "rows.yaml", "--parallelism", "2"], tmp_path))

    assert ended.code == 0, ended.err
    assert sorted(json.loads(line)["n"] for line in ended.out.splitlines()) == list(range(30_000))
    assert "FINISHED: 30,000 rows in, 30,000 out" in ended.err


def test_set_changes_a_field(headrace: Headrace, pipeline: Path, tmp_path: Path) -> None:
    result = headrace("run", str(pipeline), "--set", f"sinks.out.files.path={tmp_path / 'other'}", "--json")

    assert result.exit_code == 0
    assert len(written(tmp_path / "other")) == 3
    assert not (tmp_path / "out").exists()


def test_a_bad_row_fails_the_job_with_its_place(headrace: Headrace, pipeline: Path, tmp_path: Path) -> None:
    with (tmp_path / "rides.jsonl").open("a") as rows:
        rows.write('{"station": 7}\n')

    result = headrace("run", str(pipeline), "--json")

    assert result.exit_code == 1
    summary = json.loads(result.stdout)
    assert (summary["state"], summary["savepoint"]) == ("FAILED", None)
    assert "rides.jsonl line 6" in summary["error"]
    # on a busy machine a line of progress may come before it
    assert any(line.startswith("error: source rides:") for line in result.stderr.splitlines())
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere.yaml"], "nowhere.yaml"),
        (["run", "nowhere.py"], "nowhere.py"),
        (["run", "{folder}"], "is a folder"),
        (["run", "{file}", "--set", "sources.nix.files.path=x"], "there is no source 'nix'"),
        (["run", "{file}", "--set", "nonsense"], "not `path=value`"),
        (["run", "{file}", "--floors", "{folder}/nowhere.json"], "cannot be read"),
        (["run", "{file}", "--floors", "{folder}/rides.jsonl"], "no list of floors"),
        (["validate", "{folder}"], "is a folder"),
        (["explain", "nowhere.yaml"], "nowhere.yaml"),
        (["preview", "{file}", "hourlyy"], "did you mean 'hourly'?"),
        (["test", "{file}"], "has no tests"),
        (["connectors", "kafkaa"], "did you mean 'kafka'?"),
        (["infer", "./nowhere.jsonl"], "there is no file"),
    ],
)
def test_a_slip_is_said_in_one_message_with_exit_code_2(
    headrace: Headrace, pipeline: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = headrace(*(text.format(file=pipeline, folder=tmp_path) for text in arguments))

    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert not result.stdout


def test_floors_are_written_and_taken(headrace: Headrace, pipeline: Path, tmp_path: Path) -> None:
    floors = tmp_path / "floors.json"

    assert headrace("run", str(pipeline), "--record-floors", str(floors)).exit_code == 0
    assert json.loads(floors.read_text()) == []
    # a floor above every row: all of them come too late
    floor = {"source": "rides", "topic": "rides", "partition": 0, "position": 0, "floor": 1 << 50}
    floors.write_text(json.dumps([floor]))

    again = headrace("run", str(pipeline), "--floors", str(floors), "--json")

    assert again.exit_code == 0
    assert (json.loads(again.stdout)["late"], json.loads(again.stdout)["rows_out"]) == (4, 0)
    assert "1 floor took effect" in again.stderr
    headrace("run", str(pipeline), "--floors", str(floors), "--record-floors", str(floors))
    assert json.loads(floors.read_text()) == [floor]


UNBOUNDED = """\
name: endless
sources:
  ticks:
    generator:
      rate: 200
      columns:
        n: {sequence: {start: 0}}
    schema:
      n: int64 not null
sinks:
  out:
    from: ticks
    print: {}
    format: json
"""


def test_progress_goes_to_stderr_as_plain_lines(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.runs.run_result.PLAIN_SECONDS", 0.0)
    file = tmp_path / "slow.yaml"
    file.write_text(UNBOUNDED.replace("rate: 200", "rate: 200\n      rows: 60"))

    result = headrace("run", str(file), "--json")

    lines = result.stderr.splitlines()
    assert lines, "rows for 0.3 s are looked at more than once"
    assert all(line.startswith("in ") and " | watermark " in line for line in lines)
    assert "\x1b" not in result.stderr


PYTHON = """\
from headrace.spec.reading.read import pipeline_from_dict
from headrace.spec.pipeline import Pipeline

DATA = {
    "name": "p",
    "sources": {
        "s": {"generator": {"rows": 3, "columns": {"n": {"sequence": {"start": 0}}}}, "schema": {"n": "int64"}},
    },
    "sinks": {"o": {"from": "s", "print": {}}},
}
one = pipeline_from_dict(DATA)
"""


def test_a_python_file_holds_pipelines(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "two_pipelines.py"
    file.write_text(PYTHON)
    alone = headrace("run", str(file), "--json")
    file.with_name("both.py").write_text(PYTHON + "two = one\n")
    both = str(tmp_path / "both.py")

    assert json.loads(alone.stdout.splitlines()[-1])["rows_out"] == 3
    assert headrace("validate", f"{both}:two").exit_code == 0
    assert "write " in headrace("validate", both).stderr
    assert "did you mean 'two'?" in headrace("validate", f"{both}:twoo").stderr
    refused = headrace("run", str(file), "--set", "name=x")
    assert refused.exit_code == 2
    assert "change a YAML file" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_job_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "endless.yaml"
    file.write_text(UNBOUNDED)
    command = [sys.executable, "-m", "headrace", "run", str(file), "--json"]
    errors = tmp_path / "stderr"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as job,
    ):
        guard = threading.Timer(WAIT_SECONDS, job.kill)
        guard.start()
        try:
            assert job.stdout is not None
            lines = [job.stdout.readline()]
            os.kill(job.pid, number)
            lines += job.stdout.read().splitlines()
            code = job.wait()
        finally:
            guard.cancel()

    assert json.loads(lines[0]) == {"n": 0}
    assert code == 0, errors.read_text()
    summary = json.loads(lines[-1])
    assert summary["state"] == "CANCELED"
    assert summary["rows_out"] == len(lines) - 1
    assert "stopping" in errors.read_text()


@pytest.mark.parametrize("engine", [(), ("--threads",)], ids=["slots", "threads"])
def test_a_run_ends_when_nobody_reads_its_rows_any_more(tmp_path: Path, engine: tuple[str, ...]) -> None:
    """As with `headrace run p.yaml | head -n 1`: another attempt would find no reader either."""
    (tmp_path / "endless.yaml").write_text(UNBOUNDED)
    process = start(["run", "endless.yaml", *engine], tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert json.loads(process.stdout.readline()) == {"n": 0}
        process.stdout.close()
        assert process.wait(WAIT_SECONDS) != 0
        told = process.stderr.read()
    finally:
        process.kill()
        process.stderr.close()
    assert "nobody reads standard output any more" in told
    assert "Traceback" not in told
    assert "restart in" not in told
