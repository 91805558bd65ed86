from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.repository import ROOT
from support.suite.durations import COMMIT, FULL, UNKNOWN_SECONDS, WITH_FOLDER, durations, main, next_file

SECONDS = {"a/1.py": 90.0, "a/2.py": 10.0, "a/3.py": 20.0, "b/1.py": 80.0, "b/2.py": 70.0}


def test_the_longest_file_comes_first() -> None:
    assert next_file(list(SECONDS), SECONDS, processes=3, last=None) == "a/1.py"


def test_a_process_stays_in_its_folder_while_there_is_plenty_to_do() -> None:
    many = SECONDS | {f"c/{number}.py": 50.0 for number in range(30)}
    assert next_file([*many][1:], many, processes=3, last="a/1.py") == "a/3.py"
    assert next_file([*many][3:], many, processes=3, last="a/3.py") == "b/1.py", "there is none left"


def test_a_process_leaves_the_folders_of_others_alone_while_there_is_plenty_to_do() -> None:
    many = SECONDS | {f"c/{number}.py": 50.0 for number in range(30)}
    assert next_file([*many][1:], many, processes=3, last=None, others=["a/1.py"]) == "b/1.py"
    assert next_file([*many][1:], many, processes=3, last="d/1.py", others=["a/1.py", "b/1.py"]) == "c/0.py"
    assert next_file([*many][1:], many, processes=3, last="a/1.py", others=["a/2.py"]) == "a/3.py", (
        "it is there already"
    )
    assert next_file([*many][5:], many, processes=3, last=None, others=["c/9.py"]) == "c/0.py", "there is no other one"


def test_a_file_that_uses_what_a_folder_starts_is_of_that_folder() -> None:
    (far, folder), *_ = WITH_FOLDER.items()
    many = SECONDS | {far: 1.0, f"{folder}/1.py": 95.0} | {f"c/{number}.py": 50.0 for number in range(30)}
    left = [file for file in many if file != f"{folder}/1.py"]
    assert next_file(left, many, processes=3, last=f"{folder}/1.py") == far
    assert (
        next_file([far, *SECONDS], {**many, far: 95.0}, processes=1, last=None, others=[f"{folder}/1.py"]) == "a/1.py"
    )


def test_such_files_and_folders_are_there() -> None:
    assert [file for file in WITH_FOLDER if not (ROOT / file).is_file()] == []
    assert [folder for folder in WITH_FOLDER.values() if not (ROOT / folder).is_dir()] == []


def test_towards_the_end_the_longest_counts_wherever_it_is() -> None:
    assert next_file([*SECONDS][1:], SECONDS, processes=3, last="a/1.py") == "b/1.py"


def test_an_unknown_file_is_neither_first_nor_last() -> None:
    seconds = {"a/long.py": 2 * UNKNOWN_SECONDS, "a/short.py": UNKNOWN_SECONDS / 2}
    left = ["a/short.py", "a/new.py", "a/long.py"]
    order = []
    while left:
        order.append(next_file(left, seconds, processes=1, last=None))
        left.remove(order[-1])
    assert order == ["a/long.py", "a/new.py", "a/short.py"]


@given(
    st.dictionaries(st.sampled_from([f"{folder}/{n}.py" for folder in "abc" for n in range(9)]), st.floats(0.1, 300)),
    st.integers(1, 4),
)
def test_processes_end_at_about_the_same_time(seconds: dict[str, float], processes: int) -> None:
    """A process that is done waits for the others at most as long as the longest of the files that were short enough to
    come last takes."""
    left, busy = list(seconds), [0.0] * processes
    lasts: list[str | None] = [None] * processes
    while left:
        first = busy.index(min(busy))
        others = [each for number, each in enumerate(lasts) if each is not None and number != first]
        chosen = next_file(left, seconds, processes=processes, last=lasts[first], others=others)
        left.remove(chosen)
        busy[first] += seconds[chosen]
        lasts[first] = chosen
    ideal = max(sum(seconds.values()) / processes, max(seconds.values(), default=0.0))
    assert max(busy) <= 4 / 3 * ideal + max(seconds.values(), default=0.0) / 3


def test_what_the_last_run_measured_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("tests/a.py", "tests/b.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    cached = tmp_path / ".pytest_cache" / "v" / "headrace" / "seconds-commit"
    cached.parent.mkdir(parents=True)
    cached.write_text(json.dumps({"tests/a.py": 3.14, "tests/moved.py": 7.0}))
    measured = tmp_path / "tests" / "durations.json"
    measured.write_text(json.dumps({"commit": {"tests/a.py": 1.0, "tests/b.py": 2.0, "tests/gone.py": 9.0}}))
    monkeypatch.setattr("support.suite.durations.ROOT", tmp_path)
    monkeypatch.setattr("support.suite.durations.MEASURED", measured)

    assert main() == 0
    assert durations(COMMIT) == {"tests/a.py": 3.1, "tests/b.py": 2.0}
    assert durations(FULL) == durations(COMMIT), "until the full tier has been measured"


def test_files_that_are_measured_exist() -> None:
    gone = {file for tier in (COMMIT, FULL) for file in durations(tier) if not (ROOT / file).is_file()}
    assert gone == set(), "`make durations` drops them"
