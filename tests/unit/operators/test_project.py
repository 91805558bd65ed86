"""Select and with_columns: order, names, broadcast, failures, updating edges."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import OP
from headrace.core.errors import DataError, UserError
from headrace.core.types import Schema, schema_of
from headrace.operators.operator import OnError
from headrace.operators.project import ProjectConfig
from support.oracles.collector import run_operator

SCHEMA = schema_of({"k": "string not null", "x": "int64", "t": "string"})


def batch(rows: list[tuple[str, int | None, str | None]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=SCHEMA.polars(), orient="row")
    return frame.with_columns(pl.Series("__ts", range(len(rows)), dtype=pl.Int64))


TWO = batch([("a", 1, "7"), ("b", None, "no")])


def test_select_by_name_keeps_fields_and_order() -> None:
    config = ProjectConfig("p", (("x", None), ("k", None)), SCHEMA)
    assert str(config.output()) == "x: int64, k: string not null"
    assert run_operator(config, TWO).frame.equals(TWO.select("x", "k", "__ts"))


def test_select_by_expression_in_the_order_written() -> None:
    config = ProjectConfig("p", (("y", "x + 1"), ("k", "k"), ("one", "'one'")), SCHEMA)
    assert config.output().names == ("y", "k", "one")
    out = run_operator(config, TWO)
    assert out.frame.columns == ["y", "k", "one", "__ts"]
    assert out.frame.rows() == [(2, "a", "one", 0), (None, "b", "one", 1)]
    assert dict(out.frame.schema) == {**config.output().polars(), "__ts": pl.Int64()}


def test_with_columns_replaces_in_place_and_reads_the_input() -> None:
    config = ProjectConfig("p", (("x", "x + 1"), ("y", "x + 10")), SCHEMA, keep_input=True)
    assert config.output().names == ("k", "x", "t", "y")
    out = run_operator(config, TWO)
    assert out.frame.columns == ["k", "x", "t", "y", "__ts"]
    assert out.frame.rows()[0] == ("a", 2, "7", 11, 0)


@pytest.mark.parametrize("keep_input", [False, True])
def test_literals_answer_for_every_row_even_without_user_columns(keep_input: bool) -> None:
    config = ProjectConfig("p", (("one", "'one'"),), Schema(()), keep_input=keep_input)
    out = run_operator(config, pl.DataFrame({"__ts": [5, 6, 7]}))
    assert out.frame.rows() == [("one", 5), ("one", 6), ("one", 7)]


@given(
    st.lists(st.tuples(st.just("k"), st.integers(-9, 9), st.sampled_from(["1", "2", "no", None])), min_size=1),
    st.sampled_from([OnError.SKIP, OnError.DIVERT]),
)
def test_only_failing_rows_are_bad(rows: list[tuple[str, int, str | None]], policy: OnError) -> None:
    config = ProjectConfig("p", (("n", "cast(t as int64)"), ("y", "x + 1")), SCHEMA, on_error=policy)
    out = run_operator(config, batch(list(rows)))
    good = [(number, row) for number, row in enumerate(rows) if row[2] != "no"]
    assert [tuple(row.values()) for row in out.rows] == [
        (None if t is None else int(t), x + 1, number) for number, (_, x, t) in good
    ]
    bad = len(rows) - len(good)
    assert out.counters["bad"] == bad
    assert len(out.side("bad")) == (bad if policy is OnError.DIVERT else 0)


def test_a_failing_row_fails_the_job_by_default() -> None:
    with pytest.raises(DataError, match=r"cast\(t as int64\): cannot convert 'no'"):
        run_operator(ProjectConfig("p", (("n", "cast(t as int64)"),), SCHEMA), TWO)


def test_updating_rows_that_fail_become_deletes_and_deletes_are_not_evaluated() -> None:
    frame = batch([("a", 1, "7"), ("b", 1, "no"), ("c", 1, "no")]).with_columns(pl.Series(OP, [False, False, True]))
    config = ProjectConfig(
        "p", (("k", None), ("n", "cast(t as int64)")), SCHEMA, on_error=OnError.DIVERT, update_key=("k",)
    )
    out = run_operator(config, frame)
    assert out.frame.select("k", OP).rows() == [("a", False), ("b", True), ("c", True)]
    assert out.counters["bad"] == 1
    (bad,) = out.side("bad")
    assert (bad["k"], OP in bad) == ("b", False)
    only_delete = run_operator(config, frame.tail(1))
    assert only_delete.frame[OP].to_list() == [True]
    assert not only_delete.counters


def test_wrong_columns_are_named() -> None:
    with pytest.raises(UserError, match=r"unknown column 'kk'\n.*did you mean 'k'"):
        ProjectConfig("p", (("kk", None),), schema_of({"k": "string"})).output()
    with pytest.raises(UserError, match="'x' is named twice"):
        ProjectConfig("p", (("x", None), ("x", None)), SCHEMA).output()
