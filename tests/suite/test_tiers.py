"""Which tests a commit has, and which come with `--full`."""

from __future__ import annotations

from pathlib import Path

from support.suite.inner_run import inner_run

TESTS = """
import pytest

def test_each_time(): pass

@pytest.mark.full
def test_in_full(): pass

@pytest.mark.turns(3)
@pytest.mark.parametrize("case", range(9))
def test_a_third(case): pass
"""
FILE = """
import pytest

pytestmark = pytest.mark.turns(2, of="files")

def test_one(): pass
def test_two(): pass
"""
FILES = 8


def _collected(folder: Path, *arguments: str) -> list[str]:
    files = {"test_of_tests.py": TESTS} | {f"test_{number}.py": FILE for number in range(FILES)}
    code, printed = inner_run(folder, files, "--collect-only", "-q", *arguments, plugins=())
    assert code == 0, printed
    return [line for line in printed.splitlines() if "::" in line]


def test_a_commit_has_a_part_of_those_that_take_turns(tmp_path: Path) -> None:
    found = _collected(tmp_path)
    assert "test_of_tests.py::test_each_time" in found
    assert "test_of_tests.py::test_in_full" not in found
    assert len([name for name in found if "test_a_third" in name]) == 3
    whole = [name.partition("::")[0] for name in found if not name.startswith("test_of_tests")]
    assert {whole.count(file) for file in whole} == {2}, "a file has its turn as a whole"
    assert 0 < len(set(whole)) < FILES
    assert _collected(tmp_path) == found, "a commit always has the same ones"


def test_the_full_tier_has_all(tmp_path: Path) -> None:
    assert len(_collected(tmp_path, "--full")) == 1 + 1 + 9 + 2 * FILES
