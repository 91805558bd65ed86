from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.local.inspection.infer import declared, infer_rows, infer_texts, schema_lines
from headrace.spec.reading.load import load_text
from headrace.spec.rows import row_values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], "int64 not null"),
        ([1, 2.5], "float64 not null"),
        ([1, None], "int64"),
        ([True, False], "bool not null"),
        ([2**63], "decimal(38,0) not null"),
        ([10**40], "float64 not null"),
        (["x", ""], "string not null"),
        (["2024-01-01T00:00:00Z", "2024-01-01 00:00:00.5+02:00"], "timestamp not null"),
        (["2024-01-01T00:00:00Z", "soon"], "string not null"),
        (["2024-01-31", "2024-02-01"], "date not null"),
        (["2024-02-31"], "string not null"),
        ([None], "string"),
        ([1, "x"], "string not null"),
        ([[1], [2.5, None]], "[float64] not null"),
        ([[1], None], "[int64 not null]"),
        ([{"a": 1}, {"a": 2, "b": "x"}], "{a: int64 not null, b: string} not null"),
        ([{}], "string not null"),
    ],
)
def test_the_type_of_a_column(values: list[object], expected: str) -> None:
    inferred = infer_rows([{"c": value} for value in values])

    assert inferred.schema.field("c").type_text == expected


def test_a_column_that_some_rows_lack_is_nullable() -> None:
    inferred = infer_rows([{"a": 1, "b": 1}, {"a": 2}])

    assert inferred.schema.json() == {"a": "int64 not null", "b": "int64"}


def test_epoch_numbers_are_times_where_the_name_says_so() -> None:
    inferred = infer_rows([{"created_at": 1_700_000_000_000, "ts": 1_700_000_000, "number": 1_700_000_000_000}])

    assert schema_lines(inferred) == [
        "schema:",
        "  created_at: timestamp not null  # epoch milliseconds",
        "  ts: timestamp(s) not null  # epoch seconds",
        "  number: int64 not null",
        "time:",
        "  column: created_at",
        "  out_of_orderness: 0s  # how late a row may come: not measured",
    ]


def test_notes_stand_beside_their_columns() -> None:
    lines = schema_lines(infer_rows([{"a": 1, "__ts": 1, "odd name": None}, {"a": "x"}]))

    assert lines == [
        "schema:",
        "  a: string not null  # mixed: int, string; rows with another type than this are bad",
        '  "odd name": string  # every value is null: the type is a guess',
        "  # __ts: left out: names that begin with __ are headrace's own",
    ]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2"], "int64 not null"),
        (["1", "2.5e3"], "float64 not null"),
        (["007"], "string not null"),
        (["00.5"], "string not null"),
        (["true", "False"], "bool not null"),
        (["", "1"], "int64"),
        (["2024-01-01T00:00:00Z"], "timestamp not null"),
    ],
)
def test_text_is_read_by_what_it_looks_like(texts: list[str], expected: str) -> None:
    assert infer_texts([{"c": text} for text in texts]).schema.field("c").type_text == expected


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["2024-01-01", "2024-01-01T00:00:00Z"]),
)
_names = st.sampled_from(["a", "b_c", "null", "d e", 'q"q', "yes", "12"])
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=3)),
    max_leaves=5,
)
_HEAD = "name: x\nsources:\n  s:\n    memory:\n      name: x\n"
_TAIL = "sinks:\n  o:\n    from: s\n    memory:\n      name: y\n"


@given(st.lists(st.dictionaries(_names, _values, min_size=1, max_size=3), min_size=1, max_size=5))
def test_a_pipeline_takes_every_inferred_schema(rows: list[dict[str, Any]]) -> None:
    inferred = infer_rows(rows)
    block = "".join(f"    {line}\n" for line in schema_lines(inferred))

    node = load_text(_HEAD + block + _TAIL, "x.yaml", environ={}).pipeline.sources["s"]

    assert node.columns.names == inferred.schema.names
    if not inferred.notes:
        plain = [row for row in rows if not any(isinstance(value, dict | list) for value in row.values())]
        for row in plain:
            row_values(row, node.columns)


SAMPLE = infer_rows([{"id": 1, "n": 2, "in": {"a": 1}, "l": [1]}, {"id": 2, "n": None, "in": {"a": 2}, "l": [2]}])


def test_by_default_everything_is_nullable_also_within() -> None:
    schema = declared(SAMPLE, keys=(), not_null=False).schema.json()
    assert schema == {"id": "int64", "n": "int64", "in": "{a: int64}", "l": "[int64]"}


def test_keys_and_the_wish() -> None:
    assert declared(SAMPLE, keys=("id",), not_null=False).schema.field("id").type_text == "int64 not null"
    assert declared(SAMPLE, keys=("id",), not_null=False).schema.field("in").type_text == "{a: int64}"
    assert declared(SAMPLE, keys=(), not_null=True).schema == SAMPLE.schema


@pytest.mark.parametrize(("key", "message"), [("n", "some rows have no value"), ("ids", "no such column")])
def test_what_can_be_no_key(key: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        declared(SAMPLE, keys=(key,), not_null=True)
