"""The S3 store and a journal on it, on a real server (moto) in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Replaced, Written
from headrace.checkpoint.stores.opening import open_store, read_url
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.core.errors import ExternalError, UserError
from support.storage.checkpoints import attempt, checkpoint, committed
from support.storage.s3_server import BUCKET, S3Server, s3_server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{request.node.name}"


def test_the_first_put_wins(bucket: str) -> None:
    store = open_store(f"{bucket}/storage/")
    assert store.put_if_absent("job/journal/00000001.json", b"one")
    assert not store.put_if_absent("job/journal/00000001.json", b"two")
    assert store.read("job/journal/00000001.json") == b"one"
    assert read_url(f"{bucket}/storage/job/journal/00000001.json") == b"one"


def test_a_put_waits_for_another_one_of_that_name(bucket: str) -> None:
    store = open_store(f"{bucket}/storage/")
    assert store.put_if_absent("contested", b"one")
    assert not store.put_if_absent("contested", b"two")


def test_of_many_threads_exactly_one_gets_a_name(bucket: str) -> None:
    store = open_store(bucket)
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


def test_it_lists_and_deletes(bucket: str) -> None:
    store = open_store(bucket)
    for path in ("state/b", "state/a", "state/deep/c", "statement"):
        store.write(path, memoryview(b"12"))
    assert store.list("state/") == ["state/a", "state/b", "state/deep/c"]
    assert [(each.path, each.bytes) for each in store.objects("statement")] == [("statement", 2)]
    store.delete(["state/a", "missing", "statement"])
    assert store.list("") == ["state/b", "state/deep/c"]
    store.delete([])
    assert list(store.leftovers()) == []
    with pytest.raises(ObjectNotFoundError, match="state/a is not there"):
        store.read("state/a")


def test_a_journal_on_it_lets_only_one_go_on(bucket: str) -> None:
    one, two = (JournalStore(open_store(bucket), "job", name) for name in ("one", "two"))
    for draft in (attempt(1), checkpoint(1), committed(1), checkpoint(2), committed(2)):
        assert isinstance(one.append(draft), Written)
    one.prune(1)
    assert two.load().epoch == 2
    assert isinstance(two.append(attempt(2, 2)), Written)
    assert isinstance(one.append(checkpoint(3)), Replaced)


def test_what_is_wrong_is_said(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExternalError, match="no bucket elsewhere"):
        open_store("s3://elsewhere/x").put_if_absent("a", b"")
    with pytest.raises(ExternalError, match="no bucket elsewhere"):
        open_store("s3://elsewhere/x").list("")
    with pytest.raises(UserError, match="names no bucket"):
        open_store("s3:///x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ExternalError, match="cannot write s3://checkpoints/x/a") as caught:
        open_store("s3://checkpoints/x").put_if_absent("a", b"")
    assert caught.value.retry
