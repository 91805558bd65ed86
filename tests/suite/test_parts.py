from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.suite.inner_run import inner_run
from support.suite.parts import part_of, pytest_addoption

pytestmark = pytest.mark.turns(2)

PASSES = "def test(): pass\n"


@given(
    st.dictionaries(st.sampled_from([f"{folder}/{n}.py" for folder in "abc" for n in range(9)]), st.floats(0.1, 300)),
    st.integers(1, 5),
)
def test_each_file_is_in_one_part_and_parts_take_about_the_same_time(seconds: dict[str, float], parts: int) -> None:
    held = [part_of(seconds, seconds, part=part, parts=parts) for part in range(1, parts + 1)]
    assert sorted(file for files in held for file in files) == sorted(seconds)
    sums = [sum(seconds[file] for file in files) for files in held]
    assert max(sums) - min(sums) <= max(seconds.values(), default=0.0) + 1e-6


def test_a_part_does_not_depend_on_the_order_of_files() -> None:
    files = [f"{number}.py" for number in range(10)]
    once = part_of(files, {"3.py": 60.0}, part=2, parts=3)
    assert part_of([*reversed(files)], {"3.py": 60.0}, part=2, parts=3) == once


def test_parts_together_are_the_run(tmp_path: Path) -> None:
    files = {f"test_{number}.py": PASSES for number in range(7)}
    ran = []
    for part in ("1/3", "2/3", "3/3"):
        code, output = inner_run(tmp_path, files, "-v", "--part", part, plugins=("parts",))
        assert code == 0, output
        ran += [name for name in files if f"{name}::test PASSED" in output]
    assert sorted(ran) == sorted(files)


@pytest.mark.parametrize("part", ["0/3", "4/3", "2", "x/3", "1/0", "1/101"])
def test_what_is_no_part_is_refused(part: str) -> None:
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    with pytest.raises(pytest.UsageError, match=f"--part: '{part}' is no part; 2/8 is the second of eight"):
        parser.parse([f"--part={part}"])
