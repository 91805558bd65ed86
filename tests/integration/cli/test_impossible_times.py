"""Rows with a time outside of the years 1 to 9999 end as `on_error` says, alter no other row, and end no process."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from headrace.core.time_range import OUTSIDE
from headrace.kernels.library import KERNELS_VARIABLE
from support.processes.running import headrace

HOSTILE = {
    "json": [
        '{"n": -1, "t": 1700000000000000}',  # microseconds where milliseconds are read: the year 55840
        '{"n": -2, "t": 9100000000000000}',  # beyond the calendar of polars
        '{"n": -3, "t": -9100000000000000}',
        '{"n": -4, "t": "0001-01-01T00:00:00+23:59"}',  # the year 0
        '{"n": -5, "t": "9999-12-31T23:59:59-00:01"}',
        '{"n": -6, "t": 0, "d": {"l": [1, 1700000000000000]}}',
    ],
    "csv": [
        "-1,1700000000000000",
        "-2,9100000000000000",
        "-4,0001-01-01T00:00:00+23:59",
        "-5,9999-12-31T23:59:59-00:01",
    ],
}
GOOD = {"json": ['{{"n": {n}, "t": {t}}}'], "csv": ["{n},{t}"]}
PIPELINE = """
name: times
parallelism: 2
sources:
  s:
    files: {{path: rows.txt}}
    format: {format}
    schema: {schema}
    time: {{column: t, out_of_orderness: 1h}}
    on_error: {policy}
steps:
  asked:
    from: s
    on_error: skip
    with_columns: {{later: "t + interval '1 hour'", text: "strftime(t, '%Y')", x: "1 // n"}}
  by_time: {{from: asked, key_by: [t], window: {{tumbling: 1h}}, aggregate: {{c: count(*)}}}}
sinks:
  out: {{from: by_time, files: {{path: out}}, format: json}}
  {bad}
"""
SCHEMAS = {"json": "{n: int64, t: timestamp, d: {l: '[timestamp]'}}", "csv": "{n: int64, t: timestamp}"}


def write(folder: Path, form: str, policy: str) -> int:
    rows = [GOOD[form][0].format(n=n, t=1_700_000_000_000 + n // 10) for n in range(1, 200)]
    for place, line in enumerate(HOSTILE[form]):
        rows.insert(7 * place + 3, line)
    (folder / "rows.txt").write_text("".join(f"{row}\n" for row in rows))
    bad = "bad: {from: s.bad, files: {path: bad}, format: json}" if policy == "divert" else ""
    text = PIPELINE.format(format=form, schema=SCHEMAS[form], policy=policy, bad=bad)
    (folder / "times.yaml").write_text(text)
    return len(HOSTILE[form])


def written(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(folder.glob("part-*")) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("kernels", ["on", "off"])
@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize(
    ("policy", "options"),
    [("divert", ()), pytest.param("skip", ("--threads",), marks=pytest.mark.full)],
    ids=["divert-slots", "skip-threads"],
)
def test_rows_with_impossible_times_leave_and_the_others_stay(
    policy: str, options: tuple[str, ...], form: str, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KERNELS_VARIABLE, kernels)
    hostile = write(tmp_path, form, policy)
    done = headrace(["run", "times.yaml", "--json", *options], tmp_path)
    assert done.code == 0, done.err
    assert (done.json["rows_in"], done.json["bad"]) == (199 + hostile, hostile)
    assert "a report failed" not in done.err
    last = {row["t"]: row["c"] for row in written(tmp_path / "out")}
    assert Counter(last.values()) == Counter({10: 19, 9: 1})
    if policy == "divert":
        reasons = {str(row["reason"]).partition('"')[2] for row in written(tmp_path / "bad")}
        assert reasons <= {f't" {OUTSIDE}; integers are read as milliseconds', f'd" {OUTSIDE}'}


@pytest.mark.parametrize("options", [(), ("--threads",)], ids=["slots", "threads"])
def test_the_row_is_named_where_it_fails_the_job(options: tuple[str, ...], tmp_path: Path) -> None:
    write(tmp_path, "json", "fail")
    failed = headrace(["run", "times.yaml", *options], tmp_path)
    assert failed.code == 1
    assert 'rows.txt line 4: field "t" is a time outside of the years 1 to 9999' in failed.err
    assert "Traceback" not in failed.err
