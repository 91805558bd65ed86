"""Commands over pipelines with mistakes in values of variables: neither their output nor their home shows a value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.planted.pipelines import changed, everything_from_files
from support.planted.secrets import planted, shown_in, shown_in_files
from support.processes.running import headrace


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, secret in planted().items():
        monkeypatch.setenv(name, secret)


SINK_URL = ("sinks", "rows", "sql", "url")
COLUMN = ("steps", "counted", "with_columns", "m")


@pytest.mark.parametrize(
    ("place", "text", "command", "code"),
    [
        # a mistake in the file, in text and in JSON
        pytest.param(("name",), "${VARIABLE_1}", ("validate", "p.yaml", "--json"), 2, marks=pytest.mark.full),
        (("steps", "chosen", "filter"), "n > ${VARIABLE_12}", ("validate", "p.yaml"), 2),
        pytest.param(
            ("sources", "numbers", "schema", "n"), "${VARIABLE_8}", ("run", "p.yaml"), 2, marks=pytest.mark.full
        ),
        # no mistake: the plan shows the source text
        (COLUMN, "length('${VARIABLE_0}')", ("explain", "p.yaml", "--json"), 0),
        pytest.param(COLUMN, "length('${VARIABLE_0}')", ("explain", "p.yaml"), 0, marks=pytest.mark.full),
        # refusals of systems, and of client libraries
        pytest.param(SINK_URL, "${VARIABLE_6}", ("run", "p.yaml", "--json"), 3, marks=pytest.mark.full),
        (("sources", "numbers", "files", "path"), "/nowhere/${VARIABLE_2}", ("run", "p.yaml"), 2),
        # a failure while rows are read
        (COLUMN, "cast(concat('${VARIABLE_10}', word) as int64)", ("run", "p.yaml"), 1),
        pytest.param(
            COLUMN, "cast('${VARIABLE_7}' as int64)", ("run", "p.yaml", "--threads"), 1, marks=pytest.mark.full
        ),
    ],
)
def test_a_mistake(tmp_path: Path, place: tuple[str, ...], text: str, command: tuple[str, ...], code: int) -> None:
    (tmp_path / "p.yaml").write_text(json.dumps(changed(everything_from_files(tmp_path), place, text), indent=1))
    ended = headrace(command, tmp_path)
    assert ended.code == code, ended
    assert not shown_in(ended.out + ended.err), ended
    assert "${VARIABLE_" in ended.out + ended.err, "the variable is named"
    assert not shown_in_files(tmp_path)


def test_a_strangers_file_is_checked_without_the_environment(tmp_path: Path) -> None:
    pipeline = everything_from_files(tmp_path)
    pipeline["name"] = "${VARIABLE_0}"
    pipeline["parallelism"] = "${VARIABLE_1:-2}"
    pipeline["steps"]["chosen"]["filter"] = "n > ${VARIABLE_2}"
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline, indent=1))
    ended = headrace(("validate", "p.yaml", "--no-env"), tmp_path)
    assert (ended.code, ended.out) == (0, "p.yaml: no mistakes, 2 values not checked\n")
    assert ended.err.count("not checked: p.yaml:") == 2

    pipeline["steps"]["summed"]["aggregate"] = {"total": "sum(${VARIABLE_3})"}
    pipeline["sources"]["numbers"]["on_error"] = "skipp"
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline, indent=1))
    ended = headrace(("validate", "p.yaml", "--no-env", "--json"), tmp_path)
    assert ended.code == 2
    assert [problem["path"] for problem in ended.json["problems"]] == ["sources.numbers.on_error"]
    assert len(ended.json["unchecked"]) == 3
