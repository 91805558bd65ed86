"""A run whose slot is killed, and which is then killed itself and taken up again: each row is in its table once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from support.local_cluster import processes_of
from support.running import headrace, start, wait_until
from support.sql_tables import Tables

ROWS = 24_000
PIPELINE = """\
name: counted
parallelism: 2
checkpoint: {{interval: 200ms}}
restart: {{strategy: fixed-delay, attempts: 5, delay: 10ms}}
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
  totals:
    from: sums
    sql: {{url: "{url}", table: totals, mode: upsert, key: [k], delivery: exactly-once, create_table: true}}
"""


def slots(home: Path) -> list[int]:
    return [pid for pid in processes_of(home) if b"headrace-slot" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def newest_epoch(tables: Tables) -> int:
    try:
        return int(tables.rows("headrace_epochs", "coalesce(max(epoch), 0)")[0][0])
    except Exception:
        return 0


def test_every_row_once_through_kills(postgres_tables: Tables, tmp_path: Path) -> None:
    tables = postgres_tables
    (tmp_path / "p.yaml").write_text(PIPELINE.format(rows=ROWS, rate=1_000, url=tables.url))
    process = start(["run", "p.yaml", "--json"], tmp_path)
    wait_until(lambda: newest_epoch(tables) > 1, "epochs are committed")
    os.kill(slots(tmp_path / "home")[0], signal.SIGKILL)
    before = newest_epoch(tables)
    wait_until(lambda: newest_epoch(tables) > before + 1, "the next attempt commits")
    process.kill()
    process.communicate()
    wait_until(lambda: processes_of(tmp_path / "home") == [], "no process is left of it")
    assert 0 < tables.count("made") < ROWS

    # nothing more happens to it: the rest may come as it can
    (tmp_path / "p.yaml").write_text(PIPELINE.format(rows=ROWS, rate=100_000, url=tables.url))
    finished = headrace(["run", "p.yaml", "--resume", "--json"], tmp_path)

    assert finished.code == 0, finished.err
    rows = sorted(tables.rows("made", "id, k"))
    assert [row[0] for row in rows] == list(range(1, ROWS + 1))
    totals = {k: (sum(1 for row in rows if row[1] == k), sum(row[0] for row in rows if row[1] == k)) for k in range(10)}
    assert {k: (n, int(total)) for k, n, total in tables.rows("totals", "k, n, total")} == totals
    assert tables.count("made__headrace_staged") == tables.count("totals__headrace_staged") == 0
