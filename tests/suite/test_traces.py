from __future__ import annotations

from pathlib import Path

import pytest

from support.suite.inner_run import inner_run
from support.suite.traces import FILE_BYTES_MAX, copy_changed, folder_name

pytestmark = pytest.mark.turns(2)

FAILS = """
import os, subprocess, time, pytest

@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    (folder / "journal").write_text("begun")
    process = subprocess.Popen(["sleep", "600"], env=os.environ | {"HEADRACE_HOME": str(folder)})
    yield folder
    process.kill()
    process.wait()

def test_earlier(tmp_path):
    (tmp_path / "other").write_text("of a test that passes")

def test_fails(home):
    begun, log = time.time(), home / "worker.log"
    # a file has the time of the clock's last tick, which may lie before this test
    while not log.exists() or log.stat().st_mtime < begun:
        log.write_text("the last words")
    assert not home, "broken"
"""


@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist", "loadfile")], ids=["alone", "side by side"])
def test_a_failing_test_leaves_logs_states_and_processes(tmp_path: Path, processes: tuple[str, ...]) -> None:
    code, output = inner_run(tmp_path, {"test_it.py": FAILS, "test_more.py": "def test(): pass"}, *processes)
    folder = tmp_path / "test-failures" / "test_it.py-test_fails"
    assert code == 1
    assert output.count(f"\n{folder}\n") == 2, "beside the failure and at the end"
    kept = {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert kept.keys() == {"call.txt", "processes.txt", "journal", "worker.log"}
    assert "AssertionError: broken" in kept["call.txt"]
    assert kept["worker.log"] == "the last words"
    assert kept["journal"] == "begun", "the whole folder in which something changed"
    assert "sleep 600" in kept["processes.txt"]


def test_a_test_whose_process_dies_leaves_them_too_and_is_not_run_again(tmp_path: Path) -> None:
    dies = "import os\ndef test_dies(tmp_path): (tmp_path / 'log').write_text('last words'); os._exit(1)\n"
    files = {"test_a.py": dies + "def test_after(): pass", "test_b.py": "def test(): pass"}
    code, output = inner_run(tmp_path, files, "-n", "2", "--dist", "loadfile")
    assert code == 1
    assert "1 failed, 2 passed" in output
    folder = tmp_path / "test-failures" / "test_a.py-test_dies"
    assert f"\n{folder}\n" in output
    assert (folder / "files" / "test_dies0" / "log").read_text() == "last words"
    assert "crashed while running" in (folder / "crash.txt").read_text()


def test_nothing_is_left_of_tests_that_pass(tmp_path: Path) -> None:
    code, _ = inner_run(tmp_path, {"test_it.py": "def test(tmp_path): (tmp_path / 'a').write_text('b')"})
    assert code == 0
    assert not (tmp_path / "test-failures").exists()


def test_of_a_large_file_the_end_is_kept_and_records_of_kafka_are_not(tmp_path: Path) -> None:
    source = tmp_path / "from" / "kafka"
    (source / "topic-0").mkdir(parents=True)
    (source / "broker.log").write_bytes(b"first" + b"." * FILE_BYTES_MAX + b"last")
    (source / "topic-0" / "00000000000000000000.log").write_bytes(b"records")
    copy_changed(tmp_path / "from", tmp_path / "to", since=0.0)
    (kept,) = (path for path in (tmp_path / "to").rglob("*") if path.is_file())
    assert kept.relative_to(tmp_path / "to") == Path("kafka/broker.log")
    assert len(kept.read_bytes()) == FILE_BYTES_MAX
    assert kept.read_bytes().endswith(b"last")


def test_two_tests_with_long_names_have_two_folders() -> None:
    names = {folder_name(f"tests/unit/test_x.py::test[{'a/' * 200}{number}]") for number in range(2)}
    assert len(names) == 2
    assert all(len(name) <= 120 and "/" not in name for name in names)
