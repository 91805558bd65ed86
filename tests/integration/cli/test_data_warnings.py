"""`headrace run` tells what looks wrong in its data, once, and nothing where it is as expected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.processes.running import Finished, headrace

PIPELINE = """\
name: {name}
sources:
  rides:
    files: {{path: rides.jsonl}}
    format: json
    schema: {{station: string not null, minutes: float64, started: {type} not null}}
    time: {{column: started}}
steps:
  long: {{from: rides, filter: "station = '{station}'"}}
  hourly:
    from: rides
    key_by: [station]
    window: {{tumbling: 1h}}
    aggregate: {{rides: count(*)}}
sinks:
  out: {{from: hourly, files: {{path: {name}-out}}, format: json}}
  some: {{from: long, files: {{path: {name}-some}}, format: json}}
"""
BEGIN_S = 1_700_000_000


def rides(times_s: Sequence[int], minutes: str) -> list[dict[str, object]]:
    return [{"station": f"s{n % 3}", minutes: n, "started": at_s} for n, at_s in enumerate(times_s)]


def run(folder: Path, rows: Sequence[dict[str, object]], *options: str, **fields: str) -> Finished:
    (folder / "rides.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / f"{fields['name']}.yaml").write_text(PIPELINE.format(**fields))
    done = headrace(["run", f"{fields['name']}.yaml", *options], folder)
    assert done.code == 0, done.err
    return done


def output(folder: Path, name: str) -> list[str]:
    return sorted(line for path in folder.glob(f"{name}-out/*") for line in path.read_text().splitlines())


@pytest.mark.parametrize("options", [(), ("--threads",)], ids=["slots", "threads"])
def test_data_that_looks_wrong_is_told_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A misspelt column, seconds read as milliseconds, a filter for a station that there is not."""
    rows = rides([BEGIN_S + n for n in range(400)], "duration")
    err = run(tmp_path, rows, *options, name="odd", type="timestamp", station="S1").err

    told = [line for line in err.splitlines() if line.startswith(("job ", "source ", "filter "))]
    assert sum("column minutes is NULL in all of the first 400 rows" in line for line in told) == 1, err
    assert sum("400 of the first 400 rows is in 1970" in line for line in told) == 1, err
    assert "declare `started: timestamp(s)`" in err
    assert sum("filter long has let none of its first 400 rows pass" in line for line in told) == 1, err
    assert len(told) == 3, err


def test_late_rows_are_told_with_the_setting_that_helps(tmp_path: Path) -> None:
    # every fourth row is two hours late
    times_s = [BEGIN_S + 60 * n - (7_200 if n % 4 == 0 and n > 200 else 0) for n in range(2_000)]
    rows = rides(times_s, "minutes")
    late = run(tmp_path, rows, name="late", type="timestamp(s)", station="s1")
    (told,) = [line for line in late.err.splitlines() if line.startswith("job ")]
    assert "came after their window was closed: half of them by more than" in told
    assert "set for source rides: `out_of_orderness: 2h" in told or "`out_of_orderness: 3h`" in told


def test_data_as_expected_is_told_nothing_about(tmp_path: Path) -> None:
    rows = rides([BEGIN_S + 60 * n for n in range(400)], "minutes")
    err = run(tmp_path, rows, name="fine", type="timestamp(s)", station="s1").err
    assert not [line for line in err.splitlines() if line.startswith("job ")], err
    counted = sum(json.loads(line)["rides"] for line in output(tmp_path, "fine"))
    assert counted == 400


CSV = """\
name: bills
sources:
  bills: {files: {path: bills.csv}, format: {csv: {header: true}}, schema: {id: int64, amount: float64}}
sinks:
  out: {from: bills, print: {}}
"""


@pytest.mark.parametrize("options", [(), ("--threads",)], ids=["slots", "threads"])
def test_a_file_that_lacks_a_column_is_told_and_one_that_lacks_all_is_refused(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "bills.yaml").write_text(CSV)
    (tmp_path / "bills.csv").write_text("id,sum\n1,2\n")
    done = headrace(["run", "bills.yaml", *options], tmp_path)
    assert (done.code, done.out) == (0, '{"id":1,"amount":null}\n')
    told = [line for line in done.err.splitlines() if "bills.csv has no column amount: NULL in all of its rows" in line]
    assert len(told) == 1, done.err

    (tmp_path / "bills.csv").write_text("ID,Amount\n1,2\n")
    refused = headrace(["run", "bills.yaml", *options], tmp_path)
    assert refused.code in {1, 2}, "in threads no row was read, so it is wrong use"
    assert refused.out == ""
    assert "bills.csv has no column of the schema" in refused.err
    assert "it has: ID, Amount" in refused.err
