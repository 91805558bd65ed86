from __future__ import annotations

import json
from pathlib import Path

from .conftest import Headrace

TESTS = """\
tests:
  - name: hours
    inputs:
      rides:
        - {station: a, minutes: 10, started: "2024-05-01T08:05:00Z"}
        - {station: a, minutes: 20, started: "2024-05-01T08:06:00Z"}
        - {station: b, minutes: null, started: "2024-05-01T08:06:00Z"}
    outputs:
      out:
        - station: a
          window_start: 2024-05-01T08:00:00Z
          window_end: 2024-05-01T09:00:00Z
          rides: 2
          mean: 15
      finished:
        - {station: a, minutes: 20, started: "2024-05-01T08:06:00Z"}
        - {station: a, minutes: 10, started: "2024-05-01T08:05:00Z"}
  - name: late
    inputs:
      rides:
        - {station: a, minutes: 10, started: "2024-05-01T08:05:00Z"}
        - {station: a, minutes: 20, started: "2024-05-01T09:06:00Z"}
        - {station: a, minutes: 30, started: "2024-05-01T08:06:00Z"}
        - {station: a, minutes: 40, started: "2024-05-01T08:07:00Z", $partition: 1}
    outputs:
      hourly.late:
        - {station: a, minutes: 30, started: "2024-05-01T08:06:00Z"}
"""


def test_all_pass(headrace: Headrace, pipeline: Path, pipeline_text: str, tmp_path: Path) -> None:
    pipeline.write_text(pipeline_text + TESTS)

    result = headrace("test", str(pipeline))

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["passed  hours", "passed  late", "2 passed, 0 failed"]
    assert not (tmp_path / "out").exists()


def test_a_difference_is_shown_with_its_column(headrace: Headrace, pipeline: Path, pipeline_text: str) -> None:
    pipeline.write_text(pipeline_text + TESTS.replace("mean: 15", "mean: 16").replace("minutes: 30", "minutes: 31", 1))

    text = headrace("test", str(pipeline))
    document = json.loads(headrace("test", str(pipeline), "--json").stdout)

    assert text.exit_code == 1
    assert "mean: expected 16.0, got 15.0" in text.stdout
    assert "minutes: expected 30.0, got 31.0" in text.stdout
    assert "0 passed, 2 failed" in text.stdout
    assert (document["passed"], document["failed"]) == (0, 2)
    (output,) = document["cases"][0]["outputs"]
    assert output["output"] == "out"
    assert output["changed"][0]["columns"] == ["mean"]
    assert output["changed"][0]["actual"]["window_start"] == "2024-05-01T08:00:00.000Z"


def test_missing_and_unexpected_rows(headrace: Headrace, pipeline: Path, pipeline_text: str) -> None:
    head = TESTS[: TESTS.index("      finished:")]
    pipeline.write_text(pipeline_text + head.replace("- station: a", "- station: zzz").replace("rides: 2", "rides: 3"))

    text = headrace("test", str(pipeline))

    assert text.exit_code == 1
    assert "{station: zzz, " in text.stdout


def test_an_expected_row_that_cannot_be_is_a_problem_of_the_file(
    headrace: Headrace, pipeline: Path, pipeline_text: str
) -> None:
    pipeline.write_text(pipeline_text + TESTS.replace("mean: 15", "meen: 15").replace("hourly.late", "hourly.lat"))

    result = headrace("test", str(pipeline))

    assert result.exit_code == 2
    assert "unknown column 'meen'" in result.stderr
    assert "lat" in result.stderr
    assert f"{pipeline}:" in result.stderr


def test_a_job_that_fails_fails_its_case(headrace: Headrace, pipeline: Path, pipeline_text: str) -> None:
    text = pipeline_text.replace("filter: minutes is not null", "filter: cast(station as int64) > 0")
    pipeline.write_text(text + TESTS)

    result = headrace("test", str(pipeline))

    assert result.exit_code == 1
    assert "the job failed: " in result.stdout
