from __future__ import annotations

import json
from pathlib import Path

from .conftest import Headrace


def test_a_valid_pipeline(headrace: Headrace, pipeline: Path) -> None:
    result = headrace("validate", str(pipeline), "--json")

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"valid": True, "pipeline": "rides", "replayable": True, "warnings": []}
    assert headrace("validate", str(pipeline)).stdout == f"{pipeline}: valid, 4 nodes, replayable\n"


def test_every_problem_has_its_place(headrace: Headrace, pipeline: Path, pipeline_text: str) -> None:
    pipeline.write_text(
        pipeline_text.replace("minutes is not null", "minuts is not null").replace("key_by: [station]", "key_by: [x]")
    )

    result = headrace("validate", str(pipeline), "--json")

    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["valid"] is False
    problem = document["problems"][0]
    assert set(problem) == {"file", "line", "column", "path", "message", "remedy"}
    assert problem["file"] == str(pipeline)
    assert problem["line"] == 16
    assert problem["path"] == "steps.finished.filter"
    assert "did you mean 'minutes'" in problem["remedy"]
    text = headrace("validate", str(pipeline))
    assert text.exit_code == 2
    assert f"{pipeline}:16:" in text.stderr


def test_a_missing_file_is_a_problem_too(headrace: Headrace) -> None:
    result = headrace("validate", "nowhere.yaml", "--json")

    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert (document["valid"], document["problems"][0]["line"]) == (False, None)


def test_warnings_name_what_is_not_replayable_and_what_nobody_reads(
    headrace: Headrace, pipeline: Path, pipeline_text: str
) -> None:
    text = pipeline_text.replace("    key_by: [station]", "    key_by: [station]\n    lateness: operator")
    pipeline.write_text(text.replace("sinks:", "  unread:\n    from: rides\n    filter: minutes > 3\nsinks:"))

    document = json.loads(headrace("validate", str(pipeline), "--json").stdout)

    assert document["replayable"] is False
    assert [warning.split(":")[0] for warning in document["warnings"]] == ["hourly", "unread"]


def test_explain_as_text_and_as_json(headrace: Headrace, pipeline: Path) -> None:
    text = headrace("explain", str(pipeline)).stdout
    document = json.loads(headrace("explain", str(pipeline), "--json").stdout)

    assert text.startswith("rides: 4 nodes in 1 task, 1 subtask; replayable\n")
    assert "\x1b" not in text
    assert "step hourly\n  reads        finished\n" in text
    assert document["nodes"][2]["columns"] == {
        "station": "string not null",
        "window_start": "timestamp not null",
        "window_end": "timestamp not null",
        "rides": "int64 not null",
        "mean": "float64",
    }
    again = json.loads(headrace("explain", str(pipeline), "--json").stdout)
    assert again == document


def test_mistakes_of_structure_hide_none_in_expressions(headrace: Headrace, pipeline: Path, pipeline_text: str) -> None:
    pipeline.write_text(
        pipeline_text.replace("minutes is not null", "minuts is not null").replace("key_by: [station]", "keyby: [x]")
    )

    document = json.loads(headrace("validate", str(pipeline), "--json").stdout)

    assert [problem["path"] for problem in document["problems"]] == ["steps.finished.filter", "steps.hourly.keyby"]
    for command, *more in (["run"], ["explain"], ["submit"], ["preview", "finished"]):
        result = headrace(command, str(pipeline), *more)
        assert result.exit_code == 2, command
        assert "there is no column 'minuts'" in result.stderr, command
        assert "unknown key 'keyby'" in result.stderr, command
