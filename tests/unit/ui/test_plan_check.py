"""A pipeline's text is checked with its lines, planned, and judged against a state; it gets no variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.ui.plan_check import checked, verdicts_on
from support.storage.checkpoints import handle_of, manifest

TEXT = """\
name: counting
sources:
  numbers:
    generator: {rate: 100, columns: {n: {sequence: {}}}}
    schema: {n: int64}
steps:
  even:
    from: numbers
    filter: n % 2 = 0
sinks:
  out: {from: even, print: {}, format: json}
"""


def test_a_good_text_is_planned_as_a_graph() -> None:
    result = checked(TEXT, "", None)
    assert result.mistakes == ()
    assert result.inputs == {"numbers": [], "even": ["numbers"], "out": ["even"]}
    assert result.summary == "No mistakes: counting, 3 nodes in 1 task, parallelism 1"


def test_overrides_and_parallelism_are_of_the_plan() -> None:
    result = checked(TEXT, "name=other\n\n", 3)
    assert result.compiled is not None
    assert (result.compiled.pipeline.name, result.compiled.pipeline.parallelism) == ("other", 3)


@pytest.mark.parametrize(
    ("wrong", "line", "part"),
    [
        (TEXT.replace("n % 2", "m % 2"), 9, "'m'"),
        (TEXT.replace("rate: 100", "rat: 100"), 4, "rat"),
        ("name: [", 1, ""),
        (TEXT + "\nsteps: {}\n", 13, "steps"),
    ],
)
def test_mistakes_have_their_lines(wrong: str, line: int, part: str) -> None:
    result = checked(wrong, "", None)
    assert line in [each.line for each in result.mistakes]
    assert any(part in each.text for each in result.mistakes)
    assert result.compiled is None
    assert "mistake" in result.summary


def test_variables_of_the_pages_process_are_not_for_its_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "the secret of tests")
    result = checked(TEXT.replace("counting", "${HEADRACE_TOKEN}"), "", None)
    assert result.compiled is None
    assert not any("the secret of tests" in each.text for each in result.mistakes)


def test_the_number_of_key_groups_is_of_the_plan_and_of_its_verdicts(tmp_path: Path) -> None:
    hourly = "  hourly: {from: even, key_by: [n], aggregate: {c: count(*)}}\nsinks:\n"
    text = TEXT.replace("sinks:\n", hourly).replace("from: even, print", "from: hourly, print")
    kept = checked(text, "", None).compiled
    changed = checked(text, "", None, max_parallelism=6).compiled
    assert kept is not None
    assert changed is not None
    assert changed.physical.max_parallelism == 6
    state = handle_of("keyed", 0, 1, 128, keys=("n",)).model_copy(
        update={"state": "groups", "files": (), "columns": {"n": "Int64"}}
    )
    saved = manifest(4).model_copy(update={"kind": "savepoint", "states": (state,)})
    (tmp_path / "manifest.json").write_text(saved.model_dump_json())
    folder = str(tmp_path)
    assert not verdicts_on(kept, folder).loses
    assert verdicts_on(changed, folder).unusable
    hashed = verdicts_on(changed, folder, rehashes=True)
    assert not hashed.unusable
    (line,) = (each for each in hashed.lines if each.node == "hourly")
    assert "all of it is read: max_parallelism was 128 and is 6" in line.text


def test_a_state_that_cannot_be_read_from_here_is_left_to_the_coordinator() -> None:
    compiled = checked(TEXT, "", None).compiled
    assert compiled is not None
    verdicts = verdicts_on(compiled, "/no/such/savepoint")
    assert verdicts.unread
    assert verdicts.lines == ()
