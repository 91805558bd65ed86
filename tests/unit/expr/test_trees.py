"""Parse trees at the entry points: equal to their text, with errors placed in the text that was parsed."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from headrace.core.errors import ExpressionError
from headrace.expr.compiler import compile_aggregates, compile_predicate, compile_scalar
from headrace.expr.sql.parse import ExpressionDialect, parse
from unit.expr.grid import SCHEMA, evaluate, frame

_QUERY = """\
select upper(s) as name, i + {column} as total
from flights
where ok and a > {bound}
"""


def _select(column: str = "j", bound: str = "1") -> tuple[str, exp.Expr]:
    text = _QUERY.format(column=column, bound=bound)
    return text, sqlglot.parse_one(text, read=ExpressionDialect)


def _projection(select: exp.Expr, number: int) -> exp.Expr:
    projection: exp.Expr = select.expressions[number].this
    return projection


@pytest.mark.parametrize("text", ["i + j * 2", "st.q", "cast(num as int64)", "case when ok then s else p end", "now()"])
def test_a_tree_compiles_as_its_text_does(text: str) -> None:
    from_text, from_tree = compile_scalar(text, SCHEMA), compile_scalar(parse(text), SCHEMA)
    assert evaluate(from_tree, frame()) == evaluate(from_text, frame())
    assert (from_tree.type, from_tree.nullable, from_tree.columns) == (
        from_text.type,
        from_text.nullable,
        from_text.columns,
    )


def test_the_text_of_a_tree_is_sql_that_compiles_to_the_same() -> None:
    _, select = _select()
    compiled = compile_scalar(_projection(select, 1), SCHEMA)
    assert compiled.text == "i + j"
    assert evaluate(compile_scalar(compiled.text, SCHEMA), frame()) == evaluate(compiled, frame())


def test_parts_of_one_query_compile_alone() -> None:
    _, select = _select()
    assert compile_scalar(_projection(select, 0), SCHEMA).columns == {"s"}
    assert compile_predicate(select.args["where"].this, SCHEMA).columns == {"ok", "a"}


def test_the_offset_of_an_error_is_that_in_the_whole_query() -> None:
    text, select = _select(column="jj")
    with pytest.raises(ExpressionError, match="no column 'jj'") as caught:
        compile_scalar(_projection(select, 1), SCHEMA)
    assert caught.value.offset == text.index("jj")

    text, select = _select(bound="p")
    with pytest.raises(ExpressionError, match="int64 and string") as caught:
        compile_predicate(select.args["where"].this, SCHEMA)
    assert caught.value.offset == text.index("a > p")

    text, select = _select()
    with pytest.raises(ExpressionError, match="condition is needed") as caught:
        compile_predicate(_projection(select, 1), SCHEMA)
    assert caught.value.offset == text.index("i + j")


def test_aggregates_as_trees() -> None:
    text = "select sum(a) / count(*) as mean, sum(a) + i as total, max(zz) from t group by i"
    mean, total, wrong = sqlglot.parse_one(text, read=ExpressionDialect).expressions
    compiled = compile_aggregates({"mean": mean.this, "total": total.this, "n": "count(*)"}, SCHEMA, ["i"])
    assert [[call.slot for call in item.calls] for item in compiled] == [["__a0", "__a1"], ["__a0"], ["__a1"]]
    with pytest.raises(ExpressionError) as caught:
        compile_aggregates({"n": wrong}, SCHEMA, ["i"])
    assert caught.value.offset == text.index("zz")


def test_compiling_leaves_the_tree_as_it_is() -> None:
    _, select = _select()
    before = repr(select)
    compile_scalar(_projection(select, 1), SCHEMA)
    compile_predicate(select.args["where"].this, SCHEMA)
    assert repr(select) == before


def test_a_tree_that_is_too_deep_is_an_error() -> None:
    tree: exp.Expr = exp.column("ok")
    for _ in range(500):
        tree = exp.Not(this=tree)
    with pytest.raises(ExpressionError, match="deeper than"):
        compile_scalar(tree, SCHEMA)


def test_a_tree_of_another_dialect_is_refused_where_it_differs() -> None:
    tree = sqlglot.parse_one("upper(s)", read="duckdb")
    with pytest.raises(ExpressionError, match="not part of expressions"):
        compile_scalar(tree, SCHEMA)
