"""Replay and verify over pipelines with mistakes in values of variables: no output, file or error shows a value.

What fails in a task comes back through Spark, which adds the task's own traceback.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.planted.pipelines import changed, everything_from_files
from support.planted.secrets import planted, shown_in, shown_in_files
from support.processes.commands import invoked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMN = ("steps", "counted", "with_columns", "m")
FAILS_IN_A_TASK = "cast(concat('${VARIABLE_10}', word) as int64)"
PATH = ("sources", "numbers", "files", "path")
SINK_URL = ("sinks", "rows", "sql", "url")


@pytest.fixture(autouse=True)
def environment(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets in variables, and commands that run in the session that is there."""

    @contextmanager
    def session(*_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("headrace.spark.cluster.session.session", session)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    for name, secret in planted().items():
        monkeypatch.setenv(name, secret)


@pytest.mark.parametrize(
    ("place", "text", "command", "code"),
    [
        (COLUMN, FAILS_IN_A_TASK, ("replay",), 1),
        pytest.param(COLUMN, FAILS_IN_A_TASK, ("verify", "--json"), 2, marks=pytest.mark.full),
        pytest.param(COLUMN, FAILS_IN_A_TASK, ("replay", "--json", "--savepoint", "saved"), 1, marks=pytest.mark.full),
        pytest.param(COLUMN, "n + length('${VARIABLE_0}')", ("replay", "--json"), 0, marks=pytest.mark.full),
        pytest.param(COLUMN, "n + length('${VARIABLE_0}')", ("verify",), 0, marks=pytest.mark.full),
        pytest.param(SINK_URL, "${VARIABLE_6}", ("replay",), 3, marks=pytest.mark.full),
        pytest.param(("steps", "chosen", "filter"), "n > ${VARIABLE_12}", ("verify",), 2, marks=pytest.mark.full),
        pytest.param(PATH, "/nowhere/${VARIABLE_2}", ("replay", "--json"), 2, marks=pytest.mark.full),
    ],
)
def test_a_mistake(
    place: tuple[str, ...],
    text: str,
    command: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(json.dumps(changed(everything_from_files(tmp_path), place, text), indent=1))
    ended = invoked(command[0], "p.yaml", *command[1:])
    shown = ended.output + "".join(capfd.readouterr())
    assert ended.exit_code == code, shown
    assert not shown_in(shown), shown
    # a database that does not answer is not named by its URL
    assert "${VARIABLE_" in shown or code in {0, 3}, "the variable is named"
    assert not shown_in_files(tmp_path)
