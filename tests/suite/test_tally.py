from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.suite.inner_run import inner_run

STARTS = """
import subprocess

def test_starts():
    for _ in range(3):
        subprocess.run(["true"], check=True)
"""


@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist", "loadfile")], ids=["alone", "side by side"])
def test_a_run_ends_with_what_it_cost(tmp_path: Path, processes: tuple[str, ...]) -> None:
    files = {"tests/a/test_starts.py": STARTS, "tests/b/c/test_x.py": "def test_x(): pass\ndef test_y(): pass"}
    code, output = inner_run(tmp_path, files, "--tally", *processes)
    assert code == 0, output
    assert re.search(r"^ +\d+\.\d s  tests/a/test_starts\.py::test_starts$", output, re.MULTILINE)
    assert re.search(r"^ +\d+\.\d s +1  a$", output, re.MULTILINE)
    assert re.search(r"^ +\d+\.\d s +2  b/c$", output, re.MULTILINE)
    assert re.search(r"^ +\d+\.\d s +3  in all$", output, re.MULTILINE)
    started = re.search(
        r"^(\d+) processes started by tests themselves; meanwhile (\d+) processes", output, re.MULTILINE
    )
    assert started
    assert 3 <= int(started[1]) <= int(started[2])
