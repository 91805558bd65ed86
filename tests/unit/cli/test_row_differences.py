from __future__ import annotations

import json

import polars as pl
import pytest

from headrace.cli.row_differences import print_comparison, print_diff
from headrace.local.comparison.difference_report import DifferenceWords, comparison_json
from headrace.local.comparison.row_diff import diff_rows
from headrace.local.comparison.row_equality import compare_rows

EXPECTED = pl.DataFrame({"k": ["a", "b", "c"], "x": [0.0, 1.5, None]})
ACTUAL = pl.DataFrame({"k": ["a", "b", "d", "b"], "x": [-0.0, 1.5, None, 1.5]})


def test_differences_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    compared = compare_rows(EXPECTED, ACTUAL)
    print_comparison("out", compared, missing="missing", extra="only there", key=("k",))
    assert capsys.readouterr().out.splitlines() == [
        "DIFFERENT  out: 1 row equal, 2 missing, 3 only there",
        "    ~ {k: a, x: 0.0}",
        "        x: 0.0, and -0.0 there",
        "    - {k: c, x: null}  (missing)",
        "    + {k: b, x: 1.5}  (only there)",
        "    + {k: d, x: null}  (only there)",
    ]


def test_equal_rows_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison("out", compare_rows(EXPECTED, EXPECTED), missing="missing", extra="only there")
    assert capsys.readouterr().out == "same  out: 3 rows\n"


def test_types_that_differ_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    compared = compare_rows(EXPECTED, ACTUAL.with_columns(x=pl.lit("")))
    print_comparison("out", compared, missing="missing", extra="only there")
    assert "types differ: x: Float64 and String" in capsys.readouterr().out
    assert comparison_json(compared)["examples"] is None


def test_differences_as_data() -> None:
    told = comparison_json(compare_rows(EXPECTED, ACTUAL), ("k",))
    assert json.loads(json.dumps(told)) == {
        "same": False,
        "equal": 1,
        "missing": 2,
        "extra": 3,
        "types": [],
        "examples": {
            "changed": [{"expected": {"k": "a", "x": 0.0}, "actual": {"k": "a", "x": -0.0}, "columns": ["x"]}],
            "missing": [{"k": "c", "x": None}],
            "extra": [{"k": "b", "x": 1.5}, {"k": "d", "x": None}],
        },
    }


def test_lines_beyond_the_most_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    diff = diff_rows(pl.DataFrame({"n": [1, 2, 3]}), pl.DataFrame({"n": [4]}))
    print_diff(diff, DifferenceWords("missing", "unexpected", "expected {expected}, got {actual}"), lines_max=2)
    assert capsys.readouterr().out.splitlines() == [
        "    - {n: 1}  (missing)",
        "    - {n: 2}  (missing)",
        "    .. and 2 more lines",
    ]
