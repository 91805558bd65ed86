"""Two NameNodes, of which the active one is replaced: nothing is lost, and nobody reads from the other one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Written
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError
from headrace.hdfs import connection
from support.hdfs.pair import NameNodePair, name_node_pair
from support.patience import WAIT_SECONDS
from support.storage.checkpoints import attempt, checkpoint, committed

pytestmark = pytest.mark.full

WRITERS, NUMBERS = 3, 40


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameNodePair]:
    with name_node_pair(tmp_path_factory.mktemp("hdfs")) as started:
        yield started


@pytest.fixture(autouse=True)
def patient(pair: NameNodePair, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in pair.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(connection, "_PATIENCE_S", WAIT_SECONDS)


def test_the_active_one_becomes_a_standby_and_the_other_one_active(pair: NameNodePair) -> None:
    """Puts of one name go on all the while, of several writers at once: one of them has each name."""
    store = open_store(pair.url("race"))
    won: list[tuple[int, int]] = []
    unknown: set[int] = set()
    half = threading.Barrier(WRITERS + 1)

    def write(writer: int) -> None:
        for number in range(NUMBERS):
            if number == NUMBERS // 2:
                half.wait(WAIT_SECONDS)
            if store.put_if_absent(f"journal/{number}", f"{writer}".encode()):
                won.append((number, writer))
            elif store.read(f"journal/{number}") == f"{writer}".encode():
                # an answer was lost
                unknown.add(number)

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in writers:
        thread.start()
    half.wait(WAIT_SECONDS)
    pair.stand_by("nn1")
    pair.activate("nn2")
    for thread in writers:
        thread.join()
    assert sorted({number for number, _ in won} | unknown) == list(range(NUMBERS))
    assert len(won) == len({number for number, _ in won}), "nobody else was told that it has a name"
    assert all(store.read(f"journal/{number}") == f"{writer}".encode() for number, writer in won)
    assert len(store.list("journal/")) == NUMBERS


def test_the_active_one_dies(pair: NameNodePair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is nn2 here. Until the other one is active, nobody answers with what that one knows."""
    journal = JournalStore(open_store(pair.url("dies")), "job", "one")
    for draft in (attempt(1), checkpoint(1)):
        assert isinstance(journal.append(draft), Written)
    pair.servers["nn2"].kill()
    with monkeypatch.context() as impatient:
        impatient.setattr(connection, "_PATIENCE_S", 2.0)
        with pytest.raises(ExternalError, match="NameNode") as caught:
            open_store(pair.url("dies")).list("")
        assert caught.value.retry
    pair.activate("nn1")
    assert isinstance(journal.append(committed(1)), Written)
    assert JournalStore(open_store(pair.url("dies")), "job", "two").load().epoch == 1
    pair.servers["nn2"].start()
    pair.wait_answering("nn2")
