"""How aggregate expressions are split: calls, slots, types, and the scalar that finishes them."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.types import Field, Primitive, Schema, parse_type
from headrace.expr.compiled import all_calls
from headrace.expr.compiler import compile_aggregates
from unit.expr.grid import SCHEMA


def test_equal_calls_of_a_step_share_a_slot() -> None:
    compiled = compile_aggregates(
        {
            "n": "count(*)",
            "mean": "sum(a) / COUNT( * )",
            "other": "sum(a) filter (where ok)",
            "both": "sum(b) + sum(a)",
        },
        SCHEMA,
        ["i"],
    )
    slots = [[call.slot for call in item.calls] for item in compiled]
    assert slots == [["__a0"], ["__a1", "__a0"], ["__a2"], ["__a3", "__a1"]]
    assert [call.slot for call in all_calls(compiled)] == ["__a0", "__a1", "__a2", "__a3"]


def test_the_parts_of_a_call() -> None:
    (compiled,) = compile_aggregates({"x": "count(distinct upper(s)) filter (where a > 1)"}, SCHEMA, [])
    (call,) = compiled.calls
    assert call.function.name == "count"
    assert call.distinct
    assert call.argument is not None
    assert call.argument.columns == {"s"}
    assert call.where is not None
    assert call.where.columns == {"a"}
    assert (call.type, compiled.type, compiled.nullable) == (Primitive.INT64, Primitive.INT64, False)


@pytest.mark.parametrize(
    ("text", "type_text", "nullable"),
    [
        ("count(*)", "int64", False),
        ("count(a)", "int64", False),
        ("sum(i)", "int64", True),
        ("sum(a)", "int64", True),
        ("sum(k)", "int64", False),
        ("sum(k) filter (where ok)", "int64", True),
        ("sum(n)", "decimal(38,2)", True),
        ("sum(h)", "float64", True),
        ("sum(f)", "float64", True),
        ("avg(i)", "float64", True),
        ("mean(n)", "float64", True),
        ("avg(k)", "float64", False),
        ("var(k)", "float64", True),
        ("variance(f)", "float64", True),
        ("stddev_samp(f)", "float64", True),
        ("stddev_pop(k)", "float64", False),
        ("min(s)", "string", True),
        ("max(t)", "timestamp", True),
        ("max(n)", "decimal(10,2)", True),
        ("first(l)", "[int64]", True),
        ("last(h)", "float32", True),
        ("coalesce(sum(a), 0)", "int64", False),
        ("max(k) - min(k)", "int64", False),
        ("i", "int32", True),
        ("round(avg(f), 1)", "float64", True),
        ("concat(i, '-', count(*))", "string", False),
    ],
)
def test_types(text: str, type_text: str, nullable: bool) -> None:
    schema = Schema((*SCHEMA, Field("k", Primitive.INT64, nullable=False)))
    (compiled,) = compile_aggregates({"x": text}, schema, ["i"])
    assert compiled.type == parse_type(type_text)[0]
    assert compiled.nullable is nullable


def test_finishing() -> None:
    (compiled,) = compile_aggregates({"x": "sum(a) // count(*) + i"}, SCHEMA, ["i"])
    results = pl.DataFrame({"__a0": [7, None, (1 << 63) - 1], "__a1": [2, 3, 1], "i": [1, 1, 1]})
    results = results.with_columns(pl.col("i").cast(pl.Int32))
    assert compiled.fails is not None
    made = results.select(compiled.finish.alias("x"), compiled.fails.alias("fails"))
    assert made["x"].to_list()[:2] == [4, None]
    assert made["fails"].to_list() == [False, False, True]


def test_a_constant_aggregate_has_a_row_a_group() -> None:
    (compiled,) = compile_aggregates({"x": "'a'"}, SCHEMA, ["i"])
    assert compiled.calls == ()
    assert pl.DataFrame({"i": [1, 2]}).select(compiled.finish.alias("x"))["x"].to_list() == ["a", "a"]


def test_first_and_last_are_order_sensitive() -> None:
    (compiled,) = compile_aggregates({"x": "first(s) || max(s)"}, SCHEMA, [])
    assert [call.function.order_sensitive for call in compiled.calls] == [True, False]
