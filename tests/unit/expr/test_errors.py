"""What is wrong is said with its place, the types concerned and what to write instead."""

from __future__ import annotations

import pytest

from headrace.core.errors import ExpressionError
from headrace.core.types import schema_of
from headrace.expr.compiler import compile_aggregates, compile_predicate, compile_scalar
from unit.expr.grid import SCHEMA


def _error(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(text, SCHEMA)
    return caught.value


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        # names
        ("i + nn", 4, ["no column 'nn'", "'n'"]),
        ("upper(S)", 6, ["no column 'S'", "'s'"]),
        ('s = "it\'s"', 4, ['no column "it\'s"', "'it''s'"]),
        ("uper(s)", 0, ["no function 'uper'", "'upper'"]),
        ("i + __ts", 4, ["hidden"]),
        ("st.z", 0, ["no field 'z'", "q, r"]),
        ("i.q", 0, ["field of a struct", "int32"]),
        ("cast(s as strin)", 5, ["'strin'", "'string'"]),
        ("cast(s as uint8)", 5, ["valid types"]),
        ("cast(s as decimal(50,2))", 5, ["precision is 1 to 38"]),
        ("position(s)", 0, ["position('a' in s)"]),
        ("date_trunc('houer', t)", 0, ["'houer'", "'hour'"]),
        # types
        ("s + 1", 0, ["string and int64", "cast"]),
        ("s + s", 0, ["||"]),
        ("s > 1", 0, ["string and int64", "cast(.. as int64)"]),
        ("t > '2013-01-01'", 0, ["timestamp and string", "timestamp '2013-01-01"]),
        ("d = '2013-01-01'", 0, ["date '2013-01-01'"]),
        ("i and ok", 0, ["and needs a bool, not int32", "<> 0"]),
        ("not s", 4, ["not needs a bool, not string"]),
        ("case when i then 1 end", 10, ["when needs a bool"]),
        ("case when ok then 1 else 'a' end", 10, ["int64 and string"]),
        ("coalesce(i, s)", 0, ["int32 and string"]),
        ("i in (1, 'a')", 0, ["int64 and string"]),
        ("upper(i)", 0, ["upper(int32)", "upper(string)"]),
        ("i like 'a'", 0, ["like needs a string"]),
        ("t - u", 0, ["date_diff"]),
        ("t + 1", 0, ["interval"]),
        ("i + interval '1 day'", 0, ["interval"]),
        ("interval '1 day'", None, ["interval"]),
        ("l < l", 0, ["no order"]),
        ("i::timestamp", 0, ["epoch_ms"]),
        ("t::int64", 0, ["epoch_ms"]),
        ("l::string", 0, ["cannot be cast"]),
        ("f // 2", 0, ["floor(a / b)"]),
        ("null", None, ["no type", "cast(null as string)"]),
        ("coalesce(null, null)", 0, ["every value is NULL"]),
        ("i[1]", 0, ["element of a list"]),
        ("w * cast(w as decimal(38,38))", 0, ["decimal places"]),
        # literals
        ("timestamp '2013-13-01'", 10, ["not a timestamp"]),
        ("date 'x'", 5, ["not a date", "2013-01-01"]),
        ("99999999999999999999", 0, ["does not fit int64"]),
        ("interval '5 parsecs' + t", 23, ["not a unit of time"]),
        ("s like p", 0, ["string literal"]),
        ("regexp_matches(s, '(')", 0, ["not a regular expression", "unclosed group"]),
        ("regexp_extract(s, 'a', 1)", 0, ["0 groups"]),
        ("lpad(s, i, 'x')", 0, ["lpad(string, n, 'text')"]),
        ("strptime(s, '%H')", 0, ["year"]),
        ("strftime(t, '%Q')", 0, ["'%Q'", "directives"]),
        # what is not part of the language
        ("sum(i)", 0, ["aggregate"]),
        ("sum(i) over ()", 0, ["window functions"]),
        ("i in (select 1)", 0, ["in"]),
        ("(select 1)", 8, ["subquery"]),
        ("select 1", 7, ["subquery"]),
        ("*", 0, ["count(*)"]),
        ("i; j", 1, ["more than one statement"]),
        ("?", None, ["parameters"]),
        ("i as x", 0, ["alias"]),
        ("i & 1", 0, ["not part of expressions"]),
        # what other systems have: what to write here
        ("i = any(l)", 8, ["any (..)", "list_contains"]),
        ("all(l)", 0, ["no function 'all'", "list_contains"]),
        ("t at time zone 'Europe/Berlni'", 0, ["unknown time zone 'Europe/Berlni'", "Europe/Berlin"]),
        ("timezone('CET/Nowhere', t)", 0, ["unknown time zone"]),
        ("timezone(s, t)", 0, ["does not exist", "timezone('text', timestamp)"]),
        ("t > current_timestamp", 4, ["no column 'current_timestamp'", "now()"]),
        ("CURRENT_DATE", 0, ["cast(now() as date)"]),
        ("current_timestamp()", 0, ["no function", "now()"]),
        ("s ~ 'a.*'", 0, ["`~`", "regexp_matches"]),
        ("s !~ 'a.*'", 0, ["`~`", "regexp_matches"]),
        ("s ~* 'a.*'", 0, ["`~*`", "(?i)"]),
        ("s similar to 'a'", 0, ["regexp_matches"]),
        ("[1, 2]", 1, ["not part of expressions"]),
        ("list[1]", 5, ["double quotes"]),
        # syntax
        ("", 0, ["empty"]),
        ("i +", 2, ["missing after '+'"]),
        ("i foo bar", 6, ["'bar' is not expected"]),
        ("(i", 1, ["parse"]),
        ("'abc", None, ["quote"]),
        ("i = = 1", 4, ["missing after '='"]),
    ],
)
def test_errors(text: str, offset: int | None, words: list[str]) -> None:
    error = _error(text)
    for word in words:
        assert word in str(error), str(error)
    assert error.offset == offset


def test_names_in_quotes() -> None:
    assert compile_scalar('"i" + "a"', SCHEMA).columns == {"i", "a"}
    assert '"I"' not in str(_error('"I"'))


@pytest.mark.parametrize("name", ["*", "^a.*$"])
def test_a_column_whose_name_polars_would_expand(name: str) -> None:
    with pytest.raises(ExpressionError, match="pattern"):
        compile_scalar(f'"{name}"', schema_of({name: "int64"}))


def test_a_condition_is_a_bool() -> None:
    assert compile_predicate("i > 0", SCHEMA).nullable
    with pytest.raises(ExpressionError, match="condition"):
        compile_predicate("i + 1", SCHEMA)


def test_now_needs_event_time() -> None:
    with pytest.raises(ExpressionError, match=r"now\(\)"):
        compile_scalar("now()", SCHEMA, has_time=False)


@pytest.mark.parametrize("text", ["(" * 400 + "i" + ")" * 400, "i" + " + i" * 1000, "not " * 500 + "ok", "i" * 30_000])
def test_what_is_too_large_is_an_error(text: str) -> None:
    assert _error(text).message


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("a + 1", 0, ["neither a key nor inside an aggregate", "key_by"]),
        ("sum(a) + b", 9, ["'b'", "key_by"]),
        ("sum(count(*))", 4, ["inside another"]),
        ("sum(s)", 0, ["sum needs numbers, not string"]),
        ("sum(ok)", 0, ["count(*) filter"]),
        ("avg(t)", 0, ["avg needs numbers, not timestamp"]),
        ("max(l)", 0, ["no order"]),
        ("summ(a)", 0, ["'sum'"]),
        ("sum(*)", 0, ["count(*)"]),
        ("sum(a, b)", 0, ["one argument"]),
        ("count()", 0, ["one argument"]),
        ("sum(zz)", 4, ["no column 'zz'"]),
        ("upper(s) filter (where ok)", 0, ["aggregate call"]),
        ("sum(a) filter (where a)", 21, ["needs a bool"]),
        ("count(distinct a, b)", 0, ["one argument"]),
        ("sum(a) over ()", 0, ["window functions"]),
        ("first(a order by b)", 6, ["order by"]),
        ("now()", 0, ["max(now())"]),
        ("count(distinct l)", 0, ["distinct takes no [int64]"]),
    ],
)
def test_errors_of_aggregates(text: str, offset: int, words: list[str]) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_aggregates({"x": text}, SCHEMA, ["i"])
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert caught.value.offset == offset
