"""Every store of checkpoints behaves the same: a folder, S3 (moto), HDFS (a NameNode and a DataNode)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import JournalReplaced, Written
from headrace.checkpoint.stores.opening import open_store, read_url, read_url_range
from headrace.checkpoint.stores.store import ObjectNotFoundError
from support.processes.running import WAIT_SECONDS
from support.storage.checkpoints import attempt, checkpoint, committed
from support.storage.s3_server import BUCKET, s3_server

pytestmark = pytest.mark.turns(3)

Place = Callable[[str], str]
"""The URL of a folder of a store."""


@pytest.fixture(scope="module", params=["file", "s3", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as environment:
        match request.param:
            case "file":
                folder = tmp_path_factory.mktemp("stores")
                yield lambda name: str(folder / name)
            case "s3":
                with s3_server() as server:
                    for variable, value in server.environment().items():
                        environment.setenv(variable, value)
                    yield lambda name: f"s3://{BUCKET}/{name}"
            case _:
                hdfs = request.getfixturevalue("hdfs")
                for variable, value in hdfs.environment().items():
                    environment.setenv(variable, value)
                yield lambda name: str(hdfs.url(f"stores/{name}"))


@pytest.fixture
def folder(place: Place, request: pytest.FixtureRequest) -> str:
    """The URL of a test's own folder."""
    return place(request.node.originalname)


def test_the_first_put_wins(folder: str) -> None:
    store = open_store(f"{folder}/storage/")
    assert store.put_if_absent("job/journal/00000001.json", b"one")
    assert not store.put_if_absent("job/journal/00000001.json", b"two")
    assert store.read("job/journal/00000001.json") == b"one"
    assert store.url == f"{folder}/storage"
    assert read_url(f"{store.url}/job/journal/00000001.json") == b"one"
    assert list(store.leftovers()) == []


def test_of_many_threads_exactly_one_gets_a_name(folder: str) -> None:
    store = open_store(folder)
    won: list[tuple[int, int]] = []

    def write(writer: int) -> None:
        won.extend((number, writer) for number in range(10) if store.put_if_absent(f"{number}", f"{writer}".encode()))

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert sorted(number for number, _ in won) == list(range(10))
    assert all(store.read(f"{number}") == f"{writer}".encode() for number, writer in won)
    assert list(store.leftovers()) == []


_WRITER = """
import sys
from headrace.checkpoint.stores.opening import open_store
store, name, count = open_store(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
won = [number for number in range(count) if store.put_if_absent(f"journal/{number:08d}.json", name.encode() * 1000)]
print(" ".join(map(str, won)))
"""


def test_of_many_processes_exactly_one_gets_a_name(folder: str) -> None:
    names, count = ["a", "b", "c"], 30
    writers = {
        name: subprocess.Popen(
            [sys.executable, "-c", _WRITER, folder, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    try:
        for writer in writers.values():
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers.values():
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        won = {
            name: [int(each) for each in writer.communicate(timeout=WAIT_SECONDS)[0].split()]
            for name, writer in writers.items()
        }
    finally:
        for writer in writers.values():
            writer.kill()
            writer.communicate()
    assert sorted(number for numbers in won.values() for number in numbers) == list(range(count))
    store = open_store(folder)
    for name, numbers in won.items():
        for number in numbers:
            assert store.read(f"journal/{number:08d}.json") == name.encode() * 1000
    assert list(store.leftovers()) == []


def test_it_lists_by_prefix_and_deletes(folder: str) -> None:
    store = open_store(folder)
    assert store.list("") == []
    for path in ("state/b", "state/a", "state/deep/c", "statement", "journal/1"):
        store.write(path, memoryview(b"12"))
    assert store.list("") == ["journal/1", "state/a", "state/b", "state/deep/c", "statement"]
    assert store.list("state/") == ["state/a", "state/b", "state/deep/c"]
    assert store.list("state/de") == ["state/deep/c"]
    assert store.list("nothing/") == []
    assert [(each.path, each.bytes) for each in store.objects("statement")] == [("statement", 2)]
    assert all(each.modified_ms > 1_600_000_000_000 for each in store.objects(""))
    store.delete(["state/a", "missing", "statement", "journal/1/below"])
    assert store.list("") == ["journal/1", "state/b", "state/deep/c"]
    store.delete([])
    with pytest.raises(ObjectNotFoundError, match="state/a is not there"):
        store.read("state/a")
    with pytest.raises(ObjectNotFoundError, match="state/a is not there"):
        store.read_range("state/a", 1, length=2)


@pytest.mark.parametrize("size", [0, 1, 5_000_001])
def test_content_of_every_size_comes_back(folder: str, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    store = open_store(folder)
    path = f"state/{size}.parquet"
    store.write(path, bytearray(data[:size]))
    assert store.read(path) == data[:size]
    assert [each.bytes for each in store.objects(path)] == [size]
    for offset, length in [(0, 1), (size // 2, 100), (max(0, size - 8), 8), (size, 1), (size + 10, 5)]:
        assert store.read_range(path, offset, length=length) == data[:size][offset : offset + length]
    assert read_url_range(f"{store.url}/{path}", 1, length=size + 1) == data[1:size]


def test_names_with_signs_of_urls_come_back(folder: str) -> None:
    store = open_store(f"{folder}/of 50%25")
    for name in ("a b", "a+b", "a%20b", "a&b=c", "ä", "a?b", "a#b"):
        store.write(f"code/{name}", name.encode())
    assert {name: store.read(name) for name in store.list("code/")} == {
        f"code/{name}": name.encode() for name in ("a b", "a+b", "a%20b", "a&b=c", "ä", "a?b", "a#b")
    }


def test_a_journal_lets_only_one_go_on(folder: str) -> None:
    one, two = (JournalStore(open_store(folder), "job", name) for name in ("one", "two"))
    for draft in (attempt(1), checkpoint(1), committed(1), checkpoint(2), committed(2)):
        assert isinstance(one.append(draft), Written)
    one.prune(1)
    assert two.load().epoch == 2
    assert isinstance(two.append(attempt(2, 2)), Written)
    assert isinstance(one.append(checkpoint(3)), JournalReplaced)
