from __future__ import annotations

from pathlib import Path

import pytest

from support.suite.inner_run import inner_run

pytestmark = pytest.mark.turns(3)

PASSES = "def test(): pass\n"
DIES = "import os\ndef test_dies(): os._exit(1)\n"


@pytest.mark.parametrize(
    ("processes", "rest"),
    [
        pytest.param("1", "", id="whole file"),
        pytest.param("2", PASSES, id="a test is left"),
        pytest.param("1", PASSES, id="a test is left to one", marks=pytest.mark.full),
        pytest.param("2", "", id="whole file of two", marks=pytest.mark.full),
    ],
)
def test_a_run_goes_on_after_a_process_that_has_done_much_dies(tmp_path: Path, processes: str, rest: str) -> None:
    """The files that are done are not handed out again, and one test alone does not wait for a second one."""
    before = {f"test_a{number}.py": PASSES for number in range(6)}
    after = {f"test_c{number}.py": PASSES for number in range(4)}
    files = {**before, "test_b.py": DIES + rest, **after}
    code, output = inner_run(tmp_path, files, "-n", processes, "--dist", "loadfile", plugins=("scheduling", "traces"))
    assert code == 1
    assert f"1 failed, {10 + bool(rest)} passed" in output
    assert "its process died: test_b.py::test_dies" in output


def test_a_run_ends_if_every_process_dies(tmp_path: Path) -> None:
    files = {f"test_{name}.py": PASSES + DIES for name in "abcd"}
    code, output = inner_run(tmp_path, files, "-n", "2", "--dist", "loadfile", plugins=("scheduling", "traces"))
    assert code == 1
    assert "4 failed, 4 passed" in output
