"""Operators, casts and conditions over the grid, with DuckDB as the oracle; and where the two differ on purpose."""

from __future__ import annotations

import pytest

from headrace.core.types import parse_type
from headrace.expr.compiler import compile_scalar
from unit.expr.grid import FAILED, INT32_MAX, INT64_MAX, INT64_MIN, SCHEMA, differences, headrace

_COMPARED = ("f g", "i j", "a i", "f a", "s p", "t u", "t d", "n m", "n i", "x x", "ok no")
_CALCULATED = ("a b", "i j", "f g", "h h", "i a", "a f", "n m", "n f", "w w")
_PATTERNS = ("a%", "%a%", "%b", "a", "a_c", "%", "", "xx%", "A%", "_", "%\\_z", "h%o w%d", "a.c")
_CASTS = {
    "i": ("bigint", "double", "float", "varchar", "bool", "int", "decimal(12,2)", "decimal(5,0)"),
    "a": ("int", "double", "varchar", "bool", "decimal(38,0)", "decimal(20,1)"),
    "f": ("int", "bigint", "float", "varchar"),
    "h": ("double", "bigint", "int"),
    "ok": ("int", "bigint", "varchar", "double"),
    "d": ("timestamp", "varchar"),
    "t": ("date", "varchar"),
    "n": ("double", "int", "bigint", "varchar", "decimal(12,4)", "decimal(4,2)"),
    "num": ("double", "bool", "date"),
    "w": ("double", "int", "bigint", "decimal(38,2)", "decimal(38,6)"),
    "s": ("varchar",),
}
_OTHERS = """
f is distinct from g
f is not distinct from g
1 is distinct from i
s is not distinct from null
st = st
st is null
l = l
5 > i
0.1 = f
ok and no
ok or no
not ok
ok and null
no or null
ok is true
ok is not true
no is false
no is null
i in (1, 2, 7)
i in (1, null)
i not in (1, null)
s in ('a', 'ABC')
f in (0, 1.5)
s not in ('a')
a in (b, 3)
null in (1, 2)
i between 0 and j
position('b' in s)
i not between -5 and 5
t between u and t
s between 'a' and 'b'
s like 'xx!%y!_z' escape '!'
s not like 'xx!%y!_z' escape '!'
s like 'xx%' escape '!'
s like null
a + 1::bigint
a - 1::bigint
a * 3::bigint
a * -1::bigint
a * -3::bigint
-1::bigint - a
3::bigint * a
a - (-1)::bigint
a * 0::bigint
i + 1::int
i / j
a / b
f / g
n / m
h / h
a / 0
a // nullif(b, -1)
i // j
a // 7
a // -7
a % 7
a % -7
i % nullif(j, -1)
a // b
f % g
f % 0
n % m
n % 0
-a
-i
-f
-n
- -a
+a
2 ** 3
f ^ 2
-7 // 2
-7 % 2
a // 0
a % 0
i // 0
case when i > 0 then 'p' when i < 0 then 'm' end
case when ok then i else a end
case i when 1 then 'one' when null then 'x' else 'no' end
case when null then 1 else 2 end
case when ok then null else 1.5::double end
case when j <> 0 then i // j else -1 end
coalesce(j, i // 0)
if(num = '0', cast(num as int), 7)
case when i // 0 > 1 then 1 else 2 end
coalesce(i // 0, 1)
try_cast(num as double)
try_cast(a as int)
try_cast(f as bigint)
a::int
t + interval '5 minutes'
t - interval 1 day
t + interval '1 month'
d + interval '1 hour'
d - interval '2 years'
t + interval '1 hour 30 minutes'
interval 3 week + t
d + 1
d - 40
1 + d
timestamp '2013-01-31 05:06:07.123456' = t
date '1969-12-31' < d
timestamp '2013-01-31T05:06:07Z' < t
s || p
s || i
i || s
s || null
st.q
st.r || 'x'
l[1]
l[-1]
l[j]
'it''s'
"""
AS_IN_DUCKDB = [
    *(pair.replace(" ", f" {sign} ") for sign in ("=", "<>", "<", "<=", ">", ">=") for pair in _COMPARED),
    *(pair.replace(" ", f" {sign} ") for sign in ("+", "-", "*") for pair in _CALCULATED),
    *(f"s {word} '{item}'" for word in ("like", "ilike", "not like", "not ilike") for item in _PATTERNS),
    *(f"cast({column} as {target})" for column, targets in _CASTS.items() for target in targets),
    *_OTHERS.strip().splitlines(),
]


@pytest.mark.parametrize("text", AS_IN_DUCKDB)
def test_agrees_with_duckdb(text: str) -> None:
    found = differences(text, text)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "type_text"),
    [
        ("1", "int64"),
        ("2.0", "float64"),
        ("1e3", "float64"),
        ("i + 1", "int64"),
        ("i + j", "int32"),
        ("i + a", "int64"),
        ("i / j", "float64"),
        ("h / h", "float32"),
        ("h + h", "float32"),
        ("h + 1", "float64"),
        ("h + i", "float64"),
        ("n + m", "decimal(13,4)"),
        ("n * m", "decimal(22,6)"),
        ("n / m", "float64"),
        ("n + i", "decimal(13,2)"),
        ("n + a", "decimal(22,2)"),
        ("n * 1.5", "float64"),
        ("w + w", "decimal(38,2)"),
        ("d + 1", "date"),
        ("d + interval '1 day'", "timestamp"),
        ("case when ok then i else 1 end", "int64"),
        ("coalesce(d, t)", "timestamp"),
        ("ceil(n)", "decimal(11,2)"),
        ("l[1]", "int64"),
        ("split(s, ',')", "[string]"),
        ("cast(null as string)", "string"),
        ("s::decimal", "decimal(18,3)"),
    ],
)
def test_result_types(text: str, type_text: str) -> None:
    assert compile_scalar(text, SCHEMA).type == parse_type(type_text)[0]


@pytest.mark.parametrize("text", ["j <> 0 and i // j > 0", "j = 0 or i // j > 0"])
def test_a_side_that_is_not_asked_cannot_fail(text: str) -> None:
    """`and` and `or` ask from left to right; DuckDB may ask both."""
    assert headrace(text)[0] != FAILED
    assert headrace("i // j > 0 and j <> 0")[0] == FAILED


def test_casts_of_strings_are_strict() -> None:
    """DuckDB also takes '1.5', '1e3' and '0x1f' for an integer."""
    assert headrace("cast(num as int64)")[:7] == [0, -1, 12, FAILED, FAILED, FAILED, FAILED]
    assert headrace("try_cast(num as int32)")[:5] == [0, -1, 12, None, None]


def test_casts_to_decimal_round_halves_to_even() -> None:
    """DuckDB rounds halves away from zero."""
    assert [str(item) for item in headrace("cast(cast(j as float64) / 8 as decimal(10,2))")[1:3]] == ["0.25", "0.25"]
    assert str(headrace("cast(0.125 as decimal(10,2))")[0]) == "0.12"
    assert str(headrace("cast('1.005' as decimal(10,2))")[0]) == "1.00"
    assert headrace("cast('abc' as decimal(10,2))")[0] == FAILED


def test_bytes_become_text_only_where_they_are_utf8() -> None:
    assert headrace("cast(x as string)")[:5] == ["", "a", FAILED, "é", "ABC"]
    assert headrace("try_cast(x as string)")[2] is None
    assert headrace("cast('é' as binary)")[0] == "é".encode()


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2013-01-01", "2013-01-01 00:00:00"),
        ("2013-01-01 05:06", "2013-01-01 05:06:00"),
        ("2013-01-01T05:06:07.5Z", "2013-01-01 05:06:07.5"),
        ("2013-01-01 05:06:07+01:30", "2013-01-01 03:36:07"),
        ("2013-01-01t05:06:07 -07", "2013-01-01 12:06:07"),
    ],
)
def test_texts_of_timestamps(text: str, instant: str) -> None:
    assert headrace(f"cast(concat('', '{text}') as timestamp) = timestamp '{instant}'")[0] is True


@pytest.mark.parametrize(
    "text",
    [
        "0000-01-01",
        "0001-01-01 00:00+14",
        "2013-02-30",
        "2013-1-1",
        "",
        "now",
        "2013-01-01 25:00:00",
        "2013-01-01 05:06:07 Mars",
    ],
)
def test_texts_that_are_no_timestamps_fail(text: str) -> None:
    assert headrace(f"cast(concat('', '{text}') as timestamp)")[0] == FAILED


def test_times_outside_the_years_1_to_9999_fail() -> None:
    assert headrace("epoch_ms(a)")[4:6] == [FAILED, FAILED]
    assert headrace("t + interval '9000 years'")[0] == FAILED
    assert headrace("t - interval '900000 days'")[1] == FAILED
    assert headrace("d + a")[4] == FAILED
    assert headrace("to_timestamp(f)")[4] == FAILED


def test_overflow_at_the_edges() -> None:
    assert headrace("a + 1")[4] == FAILED
    assert headrace("a - 1")[5] == FAILED
    assert headrace("i + j")[4] == FAILED
    assert headrace("i + 1")[4] == INT32_MAX + 1
    assert headrace("a * -1")[4:6] == [-INT64_MAX, FAILED]
    assert headrace("-9223372036854775808")[0] == INT64_MIN
    assert headrace("- a")[5] == FAILED


def test_now_is_the_event_time() -> None:
    compiled = compile_scalar("now()", SCHEMA)
    assert compiled.uses_time
    assert compiled.columns == frozenset()
    assert headrace("epoch_ms(now())") == headrace("1359608767123 + (epoch_ms(now()) - 1359608767123)")
    assert headrace("now() = timestamp '2013-01-31 05:06:07.123'")[0] is True


@pytest.mark.parametrize("text", ["random()", "uuid()", "random() + i", "case when ok then uuid() else s end"])
def test_what_is_not_replayable_says_so(text: str) -> None:
    compiled = compile_scalar(text, SCHEMA)
    assert compiled.not_replayable is not None
    values = headrace(text)
    assert len(set(map(str, values))) > 1


def test_random_values_have_their_form() -> None:
    assert all(isinstance(item, float) and 0 <= item < 1 for item in headrace("random()"))
    assert all(
        item is True
        for item in headrace(
            "regexp_matches(uuid(), '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$')"
        )
    )


@pytest.mark.parametrize(
    "text", ["1", "'a'", "null::int64", "1 + 1", "pi()", "cast('x' as int64)", "1 < 2", "upper('a') || 'b'"]
)
def test_constants_have_a_value_for_each_row(text: str) -> None:
    assert len(headrace(text)) == len(headrace("i"))


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("i", True),
        ("coalesce(i, 0)", False),
        ("i is null", False),
        ("ok is true", False),
        ("i is distinct from j", False),
        ("1", False),
        ("i + 1", True),
        ("concat(s, p)", False),
        ("nullif(1, 2)", True),
        ("case when ok then 1 end", True),
        ("case when ok then 1 else 2 end", False),
        ("greatest(i, 0)", False),
        ("try_cast('1' as int64)", True),
        ("cast('1' as int64)", False),
        ("now()", False),
        ("1 in (2, null)", True),
        ("st.q", True),
    ],
)
def test_nullability(text: str, nullable: bool) -> None:
    assert compile_scalar(text, SCHEMA).nullable is nullable


@pytest.mark.parametrize(
    "text", ["i + a * 2.0 > f", "upper(s) like 'A%'", "t + interval '1 day'", "case when ok then n else m end"]
)
def test_columns_are_those_it_reads(text: str) -> None:
    names = {name for name in SCHEMA.names if name in text.replace("(", " ").replace(")", " ").split()}
    assert compile_scalar(text, SCHEMA).columns == names


@pytest.mark.parametrize(
    "text",
    [
        "i > 0",
        "s = 'a'",
        "f / g",
        "f + 1",
        "coalesce(f, g)",
        "length(s)",
        "cast(i as string)",
        "i::int64 + 0",
        "i in (1, 2)",
        "round(f, 2)",
    ],
)
def test_what_cannot_fail_has_no_mask(text: str) -> None:
    """A mask costs a pass over the rows."""
    assert compile_scalar(text, SCHEMA).fails is None
