"""Names of columns by relation: which column a name reads, what is ambiguous, and the errors with their remedies."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest

from headrace.core.errors import ExpressionError
from headrace.core.types import Field, Primitive, Schema, Struct, schema_of
from headrace.expr.compiler import compile_aggregates, compile_predicate, compile_scalar
from headrace.expr.scope import Relation, Scope

_POINT = Struct((Field("x", Primitive.INT64), Field("y", Primitive.INT64)))
_ORDERS = Schema(
    (*schema_of({"id": "int64 not null", "amount": "int64", "two words": "int64"}), Field("place", _POINT))
)
_CUSTOMERS = Schema((*schema_of({"id": "int64", "name": "string"}), Field("orders", _POINT), Field("right", _POINT)))
RELATIONS = (
    Relation(_ORDERS, ("left", "orders"), prefix="left."),
    Relation(_CUSTOMERS, ("right", "customers"), prefix="right."),
)
"""The columns of pairs, as a join has them. Two columns on the right have the name of a relation."""
_LEFT: dict[str, object] = {"id": 1, "amount": 10, "two words": 2, "place": {"x": 3, "y": 4}}
_RIGHT: dict[str, object] = {"id": 5, "name": "Ada", "orders": {"x": 6, "y": 7}, "right": {"x": 8, "y": 9}}
ROWS = pl.DataFrame(
    [{**{f"left.{key}": value for key, value in _LEFT.items()}, **{f"right.{k}": v for k, v in _RIGHT.items()}}]
)


def _value(text: str) -> object:
    return ROWS.select(compile_scalar(text, RELATIONS).value).item()


def _error(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(text, RELATIONS)
    return caught.value


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("left.amount", {"left.amount"}),
        ("orders.amount", {"left.amount"}),
        ("amount", {"left.amount"}),
        ("left.id = right.id", {"left.id", "right.id"}),
        ('"left"."two words" + "two words"', {"left.two words"}),
        ("left.place.x + place.y", {"left.place"}),
        ("upper(customers.name)", {"right.name"}),
        # relation `orders` has no column x, and the column `orders` is a struct that has one
        ("orders.x", {"right.orders"}),
        ("right.orders.x", {"right.orders"}),
        ("right.right.x", {"right.right"}),
    ],
)
def test_the_columns_that_names_read(text: str, columns: set[str]) -> None:
    assert compile_scalar(text, RELATIONS).columns == columns


@pytest.mark.parametrize(
    "text",
    [
        "orders.amount",
        "amount",
        "orders.id",
        "customers.id",
        'orders."two words"',
        "orders.place.x",
        "place.y",
        "orders.x",
        "customers.orders.y",
        "orders.amount + customers.id",
    ],
)
def test_names_read_what_they_read_in_duckdb(text: str) -> None:
    query = f"select {text} from (select unnest($1)) orders, (select unnest($2)) customers"
    (expected,) = duckdb.execute(query, [_LEFT, _RIGHT]).fetchall()[0]
    assert _value(text) == expected


@pytest.mark.parametrize(
    ("text", "offset", "message", "remedy"),
    [
        ("1 + id", 4, "column 'id' is ambiguous", "write left.id or right.id"),
        ("1 + lft.id", 4, "there is no relation 'lft'", "did you mean 'left'?"),
        ("1 + LEFT.id", 4, "there is no relation 'LEFT'", "did you mean 'left'?"),
        ("plce.x", 0, "there is no relation 'plce'", "did you mean 'place'?"),
        ("qqq.x", 0, "there is no relation 'qqq'", "relations: left, orders, right, customers"),
        ("upper(right.nme)", 6, "there is no column 'right.nme'", "did you mean 'name'?"),
        ("customers.qqq", 0, "there is no column 'customers.qqq'", "columns of right: id, name, orders, right"),
        ("left.place.z", 0, "there is no field 'z'", "fields: x, y"),
        ("left.amount.z", 0, "`.z` takes a field of a struct, not of int64", None),
        ("amout", 0, "there is no column 'amout'", "did you mean 'amount'?"),
        ("1 + left", 4, "'left' is not a column", "name a column of it: left.x"),
        ("left.__ts", 0, "'__ts' is hidden: names that begin with `__` belong to the engine", None),
        (
            "qqq",
            0,
            "there is no column 'qqq'",
            "columns: left.id, left.amount, left.two words, left.place, right.id, right.name, right.orders, "
            "right.right",
        ),
    ],
)
def test_errors_of_names(text: str, offset: int, message: str, remedy: str | None) -> None:
    error = _error(text)
    assert (error.message, error.remedy, error.offset) == (message, remedy, offset)


def test_a_struct_column_that_both_relations_have_is_ambiguous() -> None:
    sides = [Relation(Schema((Field("p", _POINT),)), (name,), prefix=f"{name}.") for name in ("a", "b")]
    with pytest.raises(ExpressionError, match="'p' is ambiguous"):
        compile_scalar("p.x", sides)
    assert compile_scalar("b.p.x", sides).columns == {"b.p"}


def test_a_column_of_the_relation_precedes_a_field_of_a_column() -> None:
    point = Relation(Schema((Field("a", _POINT), Field("x", Primitive.STRING))), ("a",))
    assert compile_scalar("a.x", [point]).type == Primitive.STRING
    assert compile_scalar("a.y", [point]).type == Primitive.INT64
    assert compile_scalar("a.a.x", [point]).type == Primitive.INT64


def test_a_schema_is_one_relation_without_a_name() -> None:
    scope = Scope.over(_ORDERS, has_time=True)
    assert scope.schema is _ORDERS
    assert compile_scalar("place.x", _ORDERS).columns == {"place"}
    with pytest.raises(ExpressionError, match="there is no column 'left'"):
        compile_scalar("left.id", _ORDERS)


def test_a_predicate_over_pairs() -> None:
    compiled = compile_predicate("left.id < right.id and name = 'Ada'", RELATIONS)
    assert compiled.nullable
    assert ROWS.select(compiled.value).item() is True


def test_aggregates_over_relations() -> None:
    aggregates = {"n": "sum(left.amount) + right.id", "m": "max(amount)"}
    first, second = compile_aggregates(aggregates, RELATIONS, ["right.id"])
    assert [call.slot for call in (*first.calls, *second.calls)] == ["__a0", "__a1"]
    (call,) = first.calls
    assert call.argument is not None
    assert call.argument.columns == {"left.amount"}
    with pytest.raises(ExpressionError) as caught:
        compile_aggregates({"n": "count(*) + left.id"}, RELATIONS, ["right.id"])
    assert caught.value.remedy == "add it to key_by, or aggregate it: first(left.id), max(left.id)"


def test_the_cache_distinguishes_relations() -> None:
    """Equal texts over equal schemas whose relations have other names or other places in the rows."""
    schema = schema_of({"x": "int64"})
    for prefix in ("a.", "b."):
        (compiled,) = compile_aggregates({"n": "sum(r.x)"}, [Relation(schema, ("r",), prefix)], [])
        assert compiled.calls[0].argument is not None
        assert compiled.calls[0].argument.columns == {f"{prefix}x"}
    with pytest.raises(ExpressionError, match="no relation 'r'"):
        compile_aggregates({"n": "sum(r.x)"}, [Relation(schema, ("s",), "a.")], [])
