"""A run whose slot is killed, and which is then killed itself and taken up again: each row is in its table once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import sqlalchemy as sa

from headrace.processes.marked_process import command_line
from support.clusters.local import processes_of
from support.processes.running import headrace, start, wait_until
from support.storage.sql_tables import Tables

pytestmark = pytest.mark.turns(2, of="files")

ROWS = 24_000
PIPELINE = """\
name: counted
parallelism: 2
checkpoint: {{interval: 200ms}}
restart: {{strategy: fixed-delay, attempts: 100, delay: 10ms}}
sources:
  made:
    generator:
      rows: {rows}
      rate: {rate}
      partitions: 2
      columns:
        id: {{sequence: {{start: 1}}}}
        k: {{int: {{min: 0, max: 9}}}}
    schema: {{id: int64, k: int64}}
steps:
  sums:
    from: made
    key_by: [k]
    aggregate: {{n: count(*), total: sum(id)}}
sinks:
  all:
    from: made
    sql: {{url: "{url}", table: made, delivery: exactly-once, create_table: true}}
  tens:
    from: made
    sql: {{url: "{url}", table: checked, delivery: exactly-once}}
    on_error: divert
  others:
    from: tens.bad
    sql: {{url: "{url}", table: refused, delivery: exactly-once, create_table: true}}
  totals:
    from: sums
    sql: {{url: "{url}", table: totals, mode: upsert, key: [k], delivery: exactly-once, create_table: true}}
"""


def slots(home: Path) -> list[int]:
    return [pid for pid in processes_of(home) if any("headrace-slot" in part for part in command_line(pid))]


def newest(tables: Tables) -> tuple[int, int]:
    """The newest attempt and epoch that have rows in the tables."""
    try:
        ((attempt, epoch),) = tables.rows("headrace_epochs", "coalesce(max(attempt), 0), coalesce(max(epoch), 0)")
    except sa.exc.DatabaseError:
        return 0, 0  # there is no such table yet
    return int(attempt), int(epoch)


def run_until_killed(tables: Tables, folder: Path) -> None:
    """A slot of it is killed when epochs are committed, and then all of it when those of a later attempt are."""
    process = start(["run", "p.yaml", "--json"], folder)
    try:
        wait_until(lambda: newest(tables)[1] > 1, "epochs are committed")
        attempt, epoch = newest(tables)
        os.kill(slots(folder / "home")[0], signal.SIGKILL)
        wait_until(
            lambda: newest(tables) >= (attempt + 1, epoch + 2),
            f"an attempt after {attempt} commits two epochs after {epoch}",
        )
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")


def test_every_row_once_through_kills(postgres_tables: Tables, tmp_path: Path) -> None:
    tables = postgres_tables
    tables.run("CREATE TABLE checked (id bigint CHECK (mod(id, 100) <> 0), k bigint)")
    # so slow that it cannot have come to its end by itself
    (tmp_path / "p.yaml").write_text(PIPELINE.format(rows=ROWS, rate=50, url=tables.url))
    run_until_killed(tables, tmp_path)
    assert 0 < tables.count("made") < ROWS

    # nothing more happens to it: the rest may come as it can
    (tmp_path / "p.yaml").write_text(PIPELINE.format(rows=ROWS, rate=100_000, url=tables.url))
    finished = headrace(["run", "p.yaml", "--resume", "--json"], tmp_path)

    assert finished.code == 0, finished.err
    rows = sorted(tables.rows("made", "id, k"))
    assert [row[0] for row in rows] == list(range(1, ROWS + 1))
    totals = {k: (sum(1 for row in rows if row[1] == k), sum(row[0] for row in rows if row[1] == k)) for k in range(10)}
    assert {k: (n, int(total)) for k, n, total in tables.rows("totals", "k, n, total")} == totals
    assert sorted(tables.rows("checked", "id, k")) == [row for row in rows if row[0] % 100]
    assert sorted(tables.rows("refused", "id, k")) == [row for row in rows if not row[0] % 100]
    assert tables.count("made__headrace_staged") == tables.count("totals__headrace_staged") == 0
