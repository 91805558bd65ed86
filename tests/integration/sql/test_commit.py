"""Exactly once: whatever dies, comes twice, or wakes late, the table gets every decided part once and no other."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from headrace.connect.sink import Committable, Committer, OpenTransaction
from headrace.core.errors import ExternalError, UnreachableError
from headrace.core.retry import Backoff
from headrace.core.types import schema_of
from headrace_connectors.sql import client
from headrace_connectors.sql.committer import SqlCommitter
from headrace_connectors.sql.writing.writers import StagingWriter
from support.processes.running import WAIT_SECONDS
from support.storage.postgres import started_postgres
from support.storage.sql_tables import Sink, Tables

pytestmark = pytest.mark.turns(3)

SCHEMA = schema_of({"k": "string not null", "n": "int64 not null"})
STAGED = "results__headrace_staged"


@pytest.fixture
def sink(tables: Tables) -> Sink:
    return tables.sink(SCHEMA, delivery="exactly-once")


def staged(
    sink: Sink, numbers: Sequence[int], *, attempt: int = 1, subtask: int = 0, epoch: int = 1
) -> list[Committable]:
    """What a writer of its own stages and gives at the barrier."""
    writer = sink.writer(attempt, subtask)
    writer.write(sink.batch([(f"k{number}", number) for number in numbers]))
    committables = list(writer.flush(epoch))
    writer.close()
    return committables


def numbers(tables: Tables) -> list[int]:
    return sorted(int(row[0]) for row in tables.rows("results", "n"))


def test_nothing_is_seen_before_the_commit_and_a_second_commit_changes_nothing(tables: Tables, sink: Sink) -> None:
    committables = [*staged(sink, [1, 2]), *staged(sink, [3], subtask=1)]
    assert numbers(tables) == []
    assert [each.rows for each in committables] == [2, 1]

    assert list(sink.commit(committables)) == []
    committer = sink.committer(attempt=2)
    assert list(committer.commit(committables)) == []
    assert list(committer.commit(committables[:1])) == []
    committer.close()

    assert numbers(tables) == [1, 2, 3]
    assert tables.count(STAGED) == 0
    moved = tables.rows("headrace_epochs", "job, sink, attempt, subtask, epoch, rows")
    assert sorted(moved) == [("job-1", "out", 1, 0, 1, 2), ("job-1", "out", 1, 1, 1, 1)]


def test_parts_of_a_declined_epoch_come_with_the_next_one_in_order(tables: Tables) -> None:
    sink = tables.sink(SCHEMA, delivery="exactly-once", mode="upsert", key=["k"])
    writer = sink.writer()
    assert isinstance(writer, StagingWriter)
    given: list[Sequence[Committable]] = []
    for epoch, number in enumerate((1, 2, 3), start=1):
        writer.write(sink.batch([("a", number), ("b", -number)], [False, number == 3]))
        given.append(writer.flush(epoch))
    assert [[each.epoch for each in each_given] for each_given in given] == [[1], [1, 2], [1, 2, 3]]
    assert {each.name for each in given[2]} == set(sink.config.transactions(sink.context()))
    assert len({each.payload["number"] for each in given[2]}) == 3
    # in whatever order they come
    sink.commit(given[2][::-1])
    writer.committed(3, {})
    assert list(writer.flush(4)) == []
    writer.close()

    assert tables.rows("results") == [("a", 3)]


def test_describe_refuses_and_commit_loses_what_is_gone(tables: Tables, sink: Sink) -> None:
    whole, gone, torn = staged(sink, [1]), staged(sink, [2, 3], subtask=1), staged(sink, [4, 5], subtask=2)
    tables.run(f"DELETE FROM {STAGED} WHERE n IN (2, 3, 5)")
    committer = sink.committer()
    for part in (gone, torn):
        with pytest.raises(ExternalError, match="rows staged by headrace-job-1-out-1-") as raised:
            committer.describe([*whole, *part])
        assert raised.value.retry
    assert list(committer.describe(whole)) == whole

    assert list(committer.commit([*whole, *gone])) == gone
    assert list(committer.commit([*whole, *gone])) == gone
    with pytest.raises(ExternalError, match=r"of 2 rows staged by .* 1 are there"):
        committer.commit(torn)
    committer.close()
    assert numbers(tables) == [1]


def test_a_new_attempt_fences_what_was_not_decided(tables: Tables, sink: Sink) -> None:
    decided, undecided = staged(sink, [1]), staged(sink, [2], subtask=1)
    other_sink = Sink(sink.config, SCHEMA, node="other")
    others = staged(other_sink, [30])
    committer = sink.committer(attempt=2)
    committer.commit(decided)
    names = [name for subtask in (0, 1) for name in sink.config.transactions(sink.context(1, subtask))]
    assert undecided[0].name == names[1]

    committer.fence([*names, "headrace-job-1-out-1-9", "somebody-else"])
    committer.fence(names)

    assert tables.rows(STAGED, "n") == [(30,)]
    mine = staged(sink, [2, 4], attempt=2)
    assert [each.name for each in opened(committer)] == [mine[0].name]
    committer.commit(mine)
    committer.close()
    other_sink.commit(others)
    assert numbers(tables) == [1, 2, 4, 30]


def opened(committer: Committer) -> Sequence[OpenTransaction]:
    return committer.open_transactions()


def test_what_a_zombie_stages_is_never_moved_and_swept(tables: Tables, sink: Sink) -> None:
    zombie = sink.writer(attempt=1)
    zombie.write(sink.batch([("z", 1)]))
    zombie.flush(1)
    committer = sink.committer(attempt=2)
    committer.fence(sink.config.transactions(sink.context(1, 0)))
    # it wakes up in the middle of its part, and goes on as if nothing had been
    mine = staged(sink, [10, 11], attempt=2)
    zombie.write(sink.batch([("z", 2)]))
    late = zombie.flush(2)
    zombie.close()
    committer.commit(mine)
    assert numbers(tables) == [10, 11]

    newer = staged(sink, [12], attempt=2, epoch=2)
    assert list(committer.sweep(2)) == [late[1].name]
    assert list(committer.sweep(2)) == []
    # a coordinator that was replaced does no harm to a newer attempt
    assert list(committer.sweep(1)) == []
    committer.commit(newer)
    committer.close()

    assert numbers(tables) == [10, 11, 12]
    assert tables.count(STAGED) == 0


def test_attempts_that_have_the_same_number_do_not_mix(tables: Tables, sink: Sink) -> None:
    """An engine without a journal numbers every run alike."""
    first = staged(sink, [1], attempt=0)
    sink.commit(first)
    left = staged(sink, [2], attempt=0)
    second = staged(sink, [3], attempt=0)
    sink.commit(second)
    assert len({each[0].payload["tag"] for each in (first, left, second)}) == 3
    assert numbers(tables) == [1, 3]


def test_two_committers_at_once(tables: Tables, sink: Sink) -> None:
    parts = [staged(sink, range(10 * subtask, 10 * subtask + 10), subtask=subtask)[0] for subtask in range(4)]
    lost: list[Committable] = []
    begin = threading.Barrier(3)

    def commit() -> None:
        committer = sink.committer()
        begin.wait()
        lost.extend(committer.commit(parts))
        committer.close()

    threads = [threading.Thread(target=commit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert lost == []
    assert numbers(tables) == list(range(40))


def test_open_transactions_of_a_job_and_of_all(tables: Tables, sink: Sink) -> None:
    mine = staged(sink, [1, 2], attempt=3, subtask=1)
    foreign = Sink(sink.config, SCHEMA, job="other-7", node="late.bad")
    theirs = staged(foreign, [3])
    committer = sink.committer()
    assert list(committer.open_transactions()) == [
        OpenTransaction(
            name=mine[0].name,
            sink="out",
            job="job-1",
            attempt=3,
            subtask=1,
            state="2 rows staged",
            places=("results",),
            identity={name: mine[0].payload[name] for name in ("attempt", "number", "tag")},
        )
    ]
    committer.close()
    everybody = Sink(sink.config, SCHEMA, job="").committer()
    assert {each.name for each in everybody.open_transactions()} == {mine[0].name, theirs[0].name}
    everybody.close()


def test_notes_of_old_epochs_are_dropped(tables: Tables, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.sql.committer.EPOCHS_KEPT", 2)
    for epoch in range(1, 6):
        sink.commit(staged(sink, [epoch], epoch=epoch))
    assert sorted(tables.rows("headrace_epochs", "epoch")) == [(3,), (4,), (5,)]
    assert numbers(tables) == [1, 2, 3, 4, 5]


DYING = """
import json, os, signal, sys
import sqlalchemy as sa
from sqlalchemy import event
from headrace.connect.sink import Committable
from headrace.core.types import schema_of
from headrace_connectors.sql import SqlSinkConfig
from support.storage.sql_tables import Sink

when, url, fields, given = sys.argv[1:]
sink = Sink(SqlSinkConfig(url=url, **json.loads(fields)), schema_of({"k": "string not null", "n": "int64 not null"}))
committer = sink.committer()
statements = 0

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def count(*_):
    global statements
    statements += 1
    if statements == int(when):
        die()

if when == "before commit":
    event.listen(committer._database.engine, "commit", die)
elif when != "after commit":
    event.listen(committer._database.engine, "before_cursor_execute", count)
committer.commit([Committable(**each) for each in json.loads(given)])
die()
"""


@pytest.mark.parametrize("when", ["6", "before commit", "after commit"])
def test_a_committer_that_is_killed(tables: Tables, sink: Sink, when: str) -> None:
    parts = [*staged(sink, [1, 2]), *staged(sink, [3, 4], subtask=1)]
    fields = sink.config.model_dump(include={"table", "delivery"})
    given = json.dumps([dataclasses.asdict(each) for each in parts])
    ended = subprocess.run(
        [sys.executable, "-c", DYING, when, tables.url, json.dumps(fields), given],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert numbers(tables) == ([1, 2, 3, 4] if when == "after commit" else [])

    committer = sink.committer(attempt=2)
    assert list(committer.commit(parts)) == []
    committer.close()

    assert numbers(tables) == [1, 2, 3, 4]
    assert tables.count(STAGED) == 0


@pytest.mark.parametrize("outcome", ["committed", "rolled back"])
def test_a_connection_that_breaks_while_rows_are_staged(
    tables: Tables, sink: Sink, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer does not know what became of the transaction, and stages each row once."""
    monkeypatch.setattr(client, "_BACKOFF", Backoff(0.0, 0.0))
    monkeypatch.setattr(client, "PATIENCE_S", WAIT_SECONDS)
    writer = sink.writer()
    assert isinstance(writer, StagingWriter)
    writer.write(sink.batch([("a", 1), ("b", 2)]))
    writer._stage()
    writer.write(sink.batch([("c", 3)]))
    _break_once(writer._database.engine, monkeypatch, after=outcome == "committed")
    committables = writer.flush(1)
    writer.close()

    assert [each.rows for each in committables] == [3]
    sink.commit(committables)
    assert numbers(tables) == [1, 2, 3]


@pytest.mark.parametrize("outcome", ["committed", "rolled back"])
def test_a_connection_that_breaks_in_a_commit(
    tables: Tables, sink: Sink, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_BACKOFF", Backoff(0.0, 0.0))
    monkeypatch.setattr(client, "PATIENCE_S", WAIT_SECONDS)
    parts = staged(sink, [1, 2])
    committer = sink.committer()
    assert isinstance(committer, SqlCommitter)
    _break_once(committer._database.engine, monkeypatch, after=outcome == "committed")
    assert list(committer.commit(parts)) == []
    committer.close()

    assert numbers(tables) == [1, 2]


def _break_once(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """The next transaction's commit fails as where the network goes: before or after the database has done it."""
    real, broken = engine.dialect.do_commit, False

    def do_commit(connection: Any) -> None:
        nonlocal broken
        if broken:
            real(connection)
            return
        broken = True
        if after:
            real(connection)
        raise sa.exc.OperationalError("COMMIT", {}, Exception("the connection is gone"), connection_invalidated=True)

    monkeypatch.setattr(engine.dialect, "do_commit", do_commit)


def test_a_server_that_crashes_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", WAIT_SECONDS)
    server = started_postgres()
    tables = Tables(server.url())
    try:
        sink = tables.sink(SCHEMA, delivery="exactly-once")
        parts = staged(sink, [1, 2])
        writer, committer = sink.writer(subtask=1), sink.committer()
        writer.write(sink.batch([("k", 3)]))
        committer.describe(parts)
        server.stop()
        with monkeypatch.context() as patched:
            patched.setattr(writer, "_database", client.Database(writer._database.engine, "x", 0.0))  # type: ignore[attr-defined]
            patched.setattr(committer, "_database", client.Database(committer._database.engine, "x", 0.0))  # type: ignore[attr-defined]
            with pytest.raises(UnreachableError, match="does not answer"):
                writer.flush(1)
            with pytest.raises(UnreachableError, match="does not answer"):
                committer.commit(parts)
        lost: list[Sequence[Committable]] = []
        committing = threading.Thread(target=lambda: lost.append(committer.commit(parts)))
        committing.start()
        server.start()
        committing.join()
        assert [list(each) for each in lost] == [[]]
        assert numbers(tables) == [1, 2]
        writer.close()
        committer.close()
    finally:
        tables.close()
        server.close()
