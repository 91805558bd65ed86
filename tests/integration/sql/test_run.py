"""A pipeline with a table at its end, run by `headrace run`: what the table holds is what plain Python makes of it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from support.processes.running import headrace
from support.storage.sql_tables import Tables

PIPELINE = """\
name: rides
parallelism: 2
checkpoint:
  interval: {interval}
sources:
  rides:
    files:
      path: {folder}/rides-*.jsonl
      partitions: 2
    format: json
    schema:
      station: string not null
      minutes: int64 not null
      started: timestamp not null
    time:
      column: started
steps:
  longest:
    from: rides
    key_by: [station]
    aggregate:
      rides: count(*)
      minutes: sum(minutes)
  frequent:
    from: longest
    filter: rides % 10 <> 0
sinks:
  all:
    from: rides
    sql:
      url: {url}
      table: rides
      delivery: {delivery}
      create_table: true
  totals:
    from: frequent
    sql:
      url: {url}
      table: totals
      mode: upsert
      key: [station]
      delivery: {delivery}
      create_table: true
"""


def write_rides(folder: Path) -> tuple[list[tuple[str, int]], dict[str, tuple[int, int]]]:
    """Two files of rides; gives the rides and, by station, how many and how long. Stations with tens go."""
    rides = [(f"s{number % 7}", number) for number in range(400)]
    for part in (0, 1):
        lines = [
            json.dumps({"station": station, "minutes": minutes, "started": f"2024-05-01T08:{minutes % 60:02}:00Z"})
            for station, minutes in rides[part::2]
        ]
        (folder / f"rides-{part}.jsonl").write_text("\n".join(lines) + "\n")
    by_station: dict[str, list[int]] = defaultdict(list)
    for station, minutes in rides:
        by_station[station].append(minutes)
    totals = {station: (len(each), sum(each)) for station, each in by_station.items() if len(each) % 10}
    return rides, totals


@pytest.mark.parametrize(
    ("tables", "delivery", "options"),
    [
        ("sqlite", "at-least-once", ["--threads"]),
        pytest.param("sqlite", "exactly-once", ["--threads"], marks=pytest.mark.full),
        pytest.param("sqlite", "exactly-once", [], marks=pytest.mark.full),
        pytest.param("postgresql", "at-least-once", ["--threads"], marks=pytest.mark.full),
        pytest.param("postgresql", "exactly-once", ["--threads"], marks=pytest.mark.full),
        ("postgresql", "exactly-once", []),
    ],
    indirect=["tables"],
)
def test_rows_and_totals_end_in_tables(tables: Tables, tmp_path: Path, delivery: str, options: list[str]) -> None:
    rides, totals = write_rides(tmp_path)
    file = tmp_path / "rides.yaml"
    file.write_text(PIPELINE.format(folder=tmp_path, url=tables.url, delivery=delivery, interval="200ms"))

    ended = headrace(["run", str(file), "--json", *options], tmp_path)

    assert ended.code == 0, ended.err
    assert "a secret of tests" not in ended.out + ended.err
    assert sorted(tables.rows("rides", "station, minutes")) == sorted(rides)
    assert {station: (count, minutes) for station, count, minutes in tables.rows("totals")} == totals
    if delivery == "exactly-once":
        assert tables.count("rides__headrace_staged") == tables.count("totals__headrace_staged") == 0
        assert tables.count("headrace_epochs") > 0


NUMBERS = """\
name: numbers
checkpoint: {{interval: 1h, timeout: 1h}}
restart: {{strategy: fixed-delay, attempts: 2, delay: 10ms}}
sources:
  made:
    generator:
      rows: 100
      columns: {{id: {{sequence: {{start: 1}}}}, k: {{int: {{min: 0, max: 9}}}}}}
    schema: {{id: int64, k: int64}}
sinks:
  out:
    from: made
    sql: {{url: "{url}", table: numbers, delivery: exactly-once}}
"""


@pytest.mark.parametrize("tables", [pytest.param("sqlite", marks=pytest.mark.full), "postgresql"], indirect=True)
def test_rows_that_the_table_refuses_wait_until_it_takes_them(tables: Tables, tmp_path: Path) -> None:
    """They are decided when the table first sees them: neither lost nor made again."""
    tables.run("CREATE TABLE numbers (id bigint, k bigint)", "CREATE UNIQUE INDEX once ON numbers (k)")
    (tmp_path / "p.yaml").write_text(NUMBERS.format(url=tables.url))

    failed = headrace(["run", "p.yaml", "--json"], tmp_path)

    assert failed.code == 1
    assert "the table refuses a row" in failed.json["error"]
    assert (tables.count("numbers"), tables.count("numbers__headrace_staged")) == (0, 100)

    tables.run("DROP INDEX once")
    finished = headrace(["run", "p.yaml", "--resume", "--json"], tmp_path)

    assert finished.code == 0, finished.err
    assert sorted(row[0] for row in tables.rows("numbers", "id")) == list(range(1, 101))
    assert tables.count("numbers__headrace_staged") == 0
    assert tables.rows("headrace_epochs", "attempt, rows") == [(1, 100)]
