"""Each function has an entry, and each example has the result that the entry shows."""

from __future__ import annotations

from datetime import date, datetime

import polars as pl
import pytest

import headrace as hr
from headrace.core.errors import ExpressionError
from headrace.core.types import schema_of
from headrace.expr.aggregates.table import AGGREGATE_EXAMPLES, AGGREGATES
from headrace.expr.compiler import compile_scalar
from headrace.expr.functions.examples import AGGREGATE_ROWS, EXAMPLES
from headrace.expr.functions.table import FORMS, FUNCTIONS
from headrace.expr.reference import Group, entries, named
from headrace.testing import run_pipeline
from unit.expr.grid import evaluate

NO_COLUMNS = schema_of({"unused": "int64"})
ONE_ROW = pl.DataFrame({"unused": [1], "__ts": [0]})


def written(value: object) -> str:
    """A value as an expression would write it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            return f"timestamp '{value.replace(tzinfo=None).isoformat(' ')}'"
        case date():
            return f"date '{value.isoformat()}'"
        case _:
            return repr(value)


def test_each_function_has_one_entry_and_each_example_a_function() -> None:
    names = [entry.name for entry in entries()]
    assert sorted(names) == sorted([*FUNCTIONS, *FORMS, *AGGREGATES])
    assert set(EXAMPLES) == {*FUNCTIONS, *FORMS}
    assert all(entry.signatures and entry.describes for entry in entries())
    unused = [name for name, (text, _) in {**EXAMPLES, **AGGREGATE_EXAMPLES}.items() if f"{name}(" not in text]
    assert unused == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_the_result_that_is_shown(name: str) -> None:
    text, result = EXAMPLES[name]
    (value,) = evaluate(compile_scalar(text, NO_COLUMNS), ONE_ROW)
    if result is None:
        assert name in {"now", "random", "uuid"}
    else:
        assert written(value) == result


def test_examples_of_aggregates_have_the_results_that_are_shown() -> None:
    pipeline = hr.Pipeline("aggregates")
    rows = pipeline.source("rows", memory={"rows": []}, schema={"at": "timestamp", "x": "int64"}, time={"column": "at"})
    calls = {name: text for name, (text, _) in AGGREGATE_EXAMPLES.items()}
    rows.aggregate("values", window={"tumbling": "1m"}, aggregate=calls).sink("out", print={})
    given = [{"at": f"2013-01-01T00:00:0{second}Z", "x": x} for second, x in AGGREGATE_ROWS]
    (row,) = run_pipeline(pipeline, {"rows": given}).rows("out")
    shown = {name: written(row[name]) for name in AGGREGATE_EXAMPLES}
    assert shown == {name: result for name, (_, result) in AGGREGATE_EXAMPLES.items()}


def test_a_name_is_found_in_any_case_and_by_its_beginning() -> None:
    assert [entry.name for entry in named("SUM")] == ["sum"]
    assert [entry.name for entry in named("date_")] == ["date_part", "date_trunc", "date_diff"]
    assert [entry.name for entry in named("if")] == ["if"]
    (round_,) = named("round")
    assert round_.group is Group.NUMBERS
    assert "round(float, n) -> float64" in round_.signatures
    assert round_.example_text == "round(2.345, 1) = 2.3"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("uper", "nearest: upper"),
        ("extract", "list_extract, regexp_extract, json_extract_string"),
        ("nvl", "coalesce"),
        ("xyzzy", "`headrace functions` lists all"),
        ("", "`headrace functions` lists all"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, remedy: str) -> None:
    with pytest.raises(ExpressionError, match="there is no function") as failed:
        named(name)
    assert remedy in (failed.value.remedy or "")
