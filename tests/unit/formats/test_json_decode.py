"""JSON decoding against a plain oracle: same verdict and same row for every message, however batches are cut."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Decoded, Messages
from headrace.core.types import Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp, schema_of
from headrace.formats.json.decode import json_decoder
from headrace.formats.json.unreadable import readable
from support.oracles.formats import Verdict, verdicts
from support.oracles.json_messages import expected

FLAT = schema_of(
    {
        "a": "int64",
        "i": "int32 not null",
        "f": "float64",
        "g": "float32",
        "s": "string",
        "b": "bool",
        "t": "timestamp",
        "u": "timestamp(s)",
        "d": "date",
        "x": "binary",
        "p": "decimal(6,2)",
    }
)
SIMPLE = schema_of({"s": "string not null", "a": "int64", "f": "float64", "t": "timestamp"})
_INNER = Struct(
    (
        Field("a", Primitive.INT64, nullable=False),
        Field("s", Primitive.STRING),
        Field("l", ListOf(Primitive.FLOAT64, nullable=False)),
    )
)
NESTED = Schema(
    (
        Field("s", ListOf(Primitive.STRING)),
        Field("o", _INNER),
        Field("l", ListOf(_INNER)),
        Field("m", ListOf(ListOf(Primitive.BOOL), nullable=False), nullable=False),
    )
)
NESTED_TIMES = Schema(
    (
        Field("t", ListOf(Timestamp("us"))),
        Field("o", Struct((Field("d", Primitive.DATE), Field("p", Decimal(4, 1)), Field("x", Primitive.BINARY)))),
    )
)
SCHEMAS = {"flat": FLAT, "simple": SIMPLE, "nested": NESTED, "nested times": NESTED_TIMES}


def decode_in(
    messages: Sequence[bytes | None],
    schema: Schema,
    size: int,
    kernels: bool,
    binary: pa.DataType,
    strict: bool = False,
) -> list[Verdict]:
    decoder = json_decoder(schema, strict=strict, kernels=kernels)
    found = []
    for begin in range(0, len(messages), size):
        part = messages[begin : begin + size]
        decoded = decoder.decode(Messages(pa.array(part, type=binary)))
        assert dict(decoded.rows.schema) == schema.polars()
        found += verdicts(part, decoded)
    return found


_TEXTS = [
    *("", "x", "NA", "5", "-1", "1.5", "true", "null", "[1]", '{"a": 1}', "a:b,c", "é😀", "2013-01-01", "YWI=", "YWI"),
    *("2013-01-01T05:00:00Z", "2013-01-01 05:00:00.123456789+02:00", "1969-12-31T23:59:59.9999999z", "1e3", "12.30"),
    *("2013-02-29", "2012-02-29", "0000-01-01", "9999-12-31T23:59:59-23:59", "2013-01-01T24:00:00Z", "+2013-1-01"),
    *(
        "2013-01-01T05:00:60Z",
        "2013-01-01T05:00:00",
        "1357016400000",
        "123.456",
        "99999.99",
        "name",
        "a",
        "s",
        "\\",
        '"',
    ),
]
_NUMBERS = [
    *(
        "0",
        "-0",
        "1",
        "-7",
        "1.0",
        "1.5",
        "1e3",
        "1E+2",
        "-0.0",
        "12.30",
        "1234.567",
        "2147483647",
        "2147483648",
        "0.1",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1357016400000"),
    *(
        "9007199254740993.0",
        "123456789012345678901234567890",
        "1e39",
        "3.4028235677973366e38",
        "1e308",
        "1e400",
        "-1e400",
        "1" * 400,
        "1e-400",
    ),
    *(
        "3.4028235e38",
        "16777217",
        "0.30000000000000004",
        "5e-324",
        "1.00000000000000000001",
        "9999.990",
        "1e-3",
        "12345",
    ),
]
_LITERALS = [
    *("null", "true", "false", "[]", "{}", "[1]", '["x"]', "[null]", "[1.5,null]", '{"a":1}', '{"a":null}', "[[true]]"),
    *("[[null],[]]", "[[],null]", '{"a":1,"s":"5","l":[1,2.5]}', '{"a":1,"s":5}', '{"a":1,"a":"x"}', '{"a":"x","a":1}'),
    *(
        '[{"a":1}]',
        '[{"a":1,"l":[null]}]',
        '{"d":"2013-01-01","p":1.5,"x":"YQ=="}',
        '["2013-01-01T05:00:00Z",5]',
        "NaN",
    ),
    *(
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"cut \\ud83d"',
        '{"\\udc00":[1e400,{"a":"\\udfff"}],"a":1}',
        '"\\u0041"',
        '"\\n"',
        '"\n"',
        '"\t"',
        '"\\x"',
        "01",
        "tru",
        "",
        "+1",
        ".5",
        "1.",
    ),
    *("Infinity", '"\u2028"', '"\x7f"', '"\\u0000"', '["1","true",null]', "[true,5]", '{"p":"1.5"}', "'x'", '"\\\\"'),
]


def _literals() -> st.SearchStrategy[str]:
    texts = st.sampled_from(_TEXTS).map(json.dumps)
    return st.one_of(
        texts,
        st.sampled_from(_TEXTS).map(lambda item: json.dumps(item, ensure_ascii=False)),
        st.sampled_from(_NUMBERS),
        st.sampled_from(_LITERALS),
        st.integers(-(2**70), 2**70).map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.text(max_size=5).map(json.dumps),
        st.datetimes().map(lambda item: json.dumps(item.isoformat() + "Z")),
    )


_FITTING = {
    "a": ["1", "-5", "1e3", "null"],
    "i": ["1", "2.0", "-2147483648"],
    "f": ["1.5", "2", "null", "1e300"],
    "g": ["1.5", "2", "null", "0.1"],
    "s": ['"JFK"', '"5"', '"true"', "null", '""'],
    "b": ["true", "false", "null"],
    "t": ['"2013-01-01T05:00:00Z"', "1357016400000", '"2013-01-01T05:00:00.5+02:00"', "null"],
    "u": ['"2013-01-01T05:00:00Z"', "1357016400", "null"],
    "d": ['"2013-01-01"', "null"],
    "x": ['"YWI="', '""', "null"],
    "p": ["1.5", '"2.25"', "3", "-0.10", "null"],
    "l": ["[1,2]", "[]", "null"],
    "m": ["[[true]]", "[]"],
    "o": ["null", '{"a":1}'],
}


def key(name: str, escaped: bool) -> str:
    return f'"\\u{ord(name[0]):04x}{name[1:]}"' if escaped and name else json.dumps(name)


@st.composite
def message(draw: st.DrawFn, names: Sequence[str]) -> bytes | None:
    """A message that is mostly fine: every field fitting, then changed in one way or none."""
    fields = [(name, draw(st.sampled_from(_FITTING[name]))) for name in names]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        fields[draw(st.integers(0, len(fields) - 1))] = (draw(st.sampled_from([*names, "z", ""])), draw(_literals()))
    if draw(st.integers(0, 9)) == 0:
        fields.append((draw(st.sampled_from(names)), draw(_literals())))
    blank = draw(st.sampled_from(["", "", "", " ", "\t", " \r", "\n"]))
    escaped = st.sampled_from([False, False, False, True])
    body = ",".join(f"{key(name, draw(escaped))}{blank}:{blank}{literal}{blank}" for name, literal in fields)
    raw = f"{blank}{{{body}}}{blank}".encode()
    match draw(st.integers(0, 24)):
        case 0:
            return raw[: draw(st.integers(0, len(raw)))]
        case 1:
            place = draw(st.integers(0, len(raw)))
            return raw[:place] + draw(st.binary(max_size=3)) + raw[place:]
        case 2:
            return draw(st.sampled_from([None, b"", b" ", b"\n", b"\xef\xbb\xbf" + raw, raw + raw, raw + b"\n" + raw]))
        case 3:
            return draw(
                st.sampled_from([b"[]", b"5", b"null", b'"x"', b"{}", b"\xff", b"\x00", b"[1]\n", raw + b"\n", b"{"])
            )
        case _:
            return raw


@pytest.mark.parametrize("name", SCHEMAS)
@given(data=st.data())
def test_verdicts_and_rows_equal_the_oracle_for_every_cut(name: str, data: st.DataObject) -> None:
    schema = SCHEMAS[name]
    messages = data.draw(st.lists(message(schema.names), max_size=25))
    strict = data.draw(st.booleans())
    wanted = expected(messages, schema, strict=strict)
    binary = data.draw(st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
    one_by_one = decode_in(messages, schema, 500, False, binary, strict)
    for raw, found, right in zip(messages, one_by_one, wanted, strict=True):
        assert repr(found[:3] if isinstance(found, str) else found) == repr(
            right[:3] if isinstance(right, str) else right
        ), raw
    for size, kernels in ((1, True), (7, True), (500, True), (3, False)):
        for raw, found, right in zip(
            messages, decode_in(messages, schema, size, kernels, binary, strict), one_by_one, strict=True
        ):
            assert repr(found) == repr(right), (raw, size, kernels)


def decode(schema: Schema, *messages: bytes | None, kernels: bool = True) -> Decoded:
    return json_decoder(schema, kernels=kernels).decode(Messages(pa.array(list(messages), pa.binary())))


GARBAGE = [
    (b"", "empty message"),
    (b" \n\t", "empty message"),
    (b'{"s":"x"', "not JSON: "),
    (b"[1]", "not an object: array"),
    (b"null", "not an object: null"),
    (b"5", "not an object: number"),
    (b"\xff{}", "not UTF-8: byte 0xff at 0"),
    (b'\xef\xbb\xbf{"s":"x"}', "not JSON: "),
    (b'{"s":5}', 'field "s": expected string, found number 5'),
    (b'{"s":null}', 'field "s" is not null but null'),
    (b"{}", 'field "s" is not null but missing'),
    (b'{"s":"x","a":1.5}', 'field "a": expected int64, found number 1.5'),
    (b'{"s":"x","a":"1"}', 'field "a": expected int64, found string "1"'),
    (b'{"s":"x","a":true}', 'field "a": expected int64, found boolean true'),
    (b'{"s":"x","a":9223372036854775808}', 'field "a": expected int64, found number 9223372036854775808'),
    (b'{"s":"x","f":"NA"}', 'field "f": expected float64, found string "NA"'),
    (b'{"s":"x","f":[1]}', 'field "f": expected float64, found array'),
    (b'{"s":"x","f":{}}', 'field "f": expected float64, found object'),
    (b'{"s":"x","f":1e400}', 'field "f": expected float64, found number 1E+400'),
    (b'{"s":"x","f":-%s}' % (b"1" * 400), f'field "f": expected float64, found number -{"1" * 39}..'),
    (b'{"s":"x","f":%s}' % (b"1" * 5000), 'field "f": expected float64, found number '),
    (b'{"s":"x","a":1e400}', 'field "a": expected int64, found number 1E+400'),
    (b'{"s":"x","t":%s}' % (b"1" * 5000), 'field "t": expected timestamp, found number '),
    (b'{"s":"cut \\ud83d"}', 'field "s": expected string, found half of a surrogate pair, \\ud83d'),
    (b'{"s":"x","t":"cut \\ud83d"}', 'field "t": expected timestamp, found string "cut \\ud83d"'),
    (b'{"s":"x","z":"\\ud83d","y":[1,]}', "not JSON: "),
    (b'{"s":"x","z":1e400,"y":01e400}', "not JSON: "),
    (b'{"s":"x","z":1e400e5}', "not JSON: "),
    (b'{"s":"x","z":"\\ud83d', "not JSON: "),
    (b'{"s":"x","z":NaN}', "not JSON: "),
    (b'{"s":"x","z":"\\ud8"}', "not JSON: "),
    (b'{"s":"x","t":"yesterday"}', 'field "t": expected timestamp, found string "yesterday"'),
    (b'{"s":"x","t":"2013-02-29T00:00:00Z"}', 'field "t": expected timestamp, found string "2013-02-29T00:00:00Z"'),
    (b'{"s":"x"} {"s":"y"}', "not JSON: "),
    (b'{"s":"x"}\n{"s":"y"}', "not JSON: "),
    (b'{"s":"x","z":' + b"[" * 2000 + b"]" * 2000 + b"}", "not JSON: "),
    (b'{"s":"x","f":"' + b"y" * 500 + b'"}', f'field "f": expected float64, found string "{"y" * 40}.."'),
]
GOOD = b'{"s":"x","a":1}'


@pytest.mark.parametrize(("raw", "reason"), GARBAGE)
@pytest.mark.parametrize("kernels", [True, False])
def test_a_bad_message_never_takes_its_batch_down(raw: bytes, reason: str, kernels: bool) -> None:
    decoded = decode(SIMPLE, GOOD, raw, None, GOOD, kernels=kernels)
    assert decoded.rows["s"].to_list() == ["x", "x"]
    assert decoded.good is not None
    assert decoded.good.tolist() == [0, 3]
    assert decoded.bad.tolist() == [1]
    assert decoded.reasons[0].startswith(reason)  # what follows `not JSON` is the parser's own wording
    assert decoded.skipped == 1


UNREADABLE = [
    b'"cut \\ud83d"',
    b'"\\udc00\\ud800\\udc00 \\\\ud83d"',
    b"1e400",
    b"-1.5E+99999999999999999999",
    b"7" * 400,
    b"7" * 5000,
    b'{"\\ud83d":[1e400,{"s":"\\udfff"}],"a":"1e400"}',
    b"[" * 900 + b"1e400" + b"]" * 900,
]


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("value", UNREADABLE)
def test_a_value_that_no_column_can_hold_is_bad_only_where_one_reads_it(value: bytes, kernels: bool) -> None:
    unnamed, again, within = b'{"z":%s,"s":"x","a":1}', b'{"a":1,"s":"x","a":%s}', b'{"s":"x","a":1,"o":{"z":%s}}'
    schema = schema_of({"s": "string not null", "a": "int64", "o": "{n: int64}"})
    messages = [form % value for form in (unnamed, again, within)]
    decoded = decode(schema, GOOD, *messages, b'{"s":"x","a":%s}' % value, GOOD, kernels=kernels)
    assert decoded.rows.select("s", "a").rows() == [("x", 1)] * 5
    assert decoded.bad.tolist() == [4]
    assert decoded.reasons[0].startswith('field "a": expected int64, found ')
    strict = json_decoder(schema, strict=True, kernels=kernels).decode(
        Messages(pa.array([GOOD, *messages, GOOD], pa.binary()))
    )
    assert strict.bad.tolist() == [1, 2, 3]
    assert all(reason.startswith("not JSON: ") for reason in strict.reasons)


def test_only_numbers_beyond_float64_are_replaced_before_json_is_checked() -> None:
    text = '{"a":[1e308,-1e309,1.0E+0309,1e-400,0e999,"1e400","\\"1e400","\\ud83d\\ude00","\\ud83d"],"b":' + "9" * 310
    changed = text.replace("-1e309", "-1e000").replace("1.0E+0309", "1e0000000").replace('"\\ud83d"', '"\\ufffd"')
    assert readable(text) == changed.replace("9" * 310, "1e" + "0" * 308)
    assert readable('{"a":"' + '\\"1e400' * 200_000) == '{"a":"' + '\\"1e400' * 200_000


def test_deep_nesting_up_to_the_limit_is_ignored_like_any_extra_field() -> None:
    raw = b'{"z":' + b"[" * 1023 + b"]" * 1023 + b',"s":"x"}'
    deeper = raw.replace(b"[]", b"[[]]")
    for kernels in (True, False):
        decoded = decode(SIMPLE, raw, deeper, kernels=kernels)
        assert decoded.rows["s"].to_list() == ["x"]
        assert decoded.bad.tolist() == [1]
        assert decoded.reasons[0].startswith("not JSON: ")


def below(levels: int, call: Callable[[], Decoded]) -> Decoded:
    return call() if levels == 0 else below(levels - 1, call)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("stack", [0, 300, 600])
@pytest.mark.parametrize("levels", [300, 800, 1020])
def test_deep_messages_are_read_the_same_at_any_depth_of_the_stack(levels: int, stack: int, kernels: bool) -> None:
    deep = b"[" * (levels - 2) + b'{"[\\"]":[1.5,{}],"b":[null,"}"]}' + b"]" * (levels - 2)
    messages = (
        b'{"s":"x","a":1.0,"z":%s}' % deep,
        b'{"s":"x","a":1,"z":%s,"a":2}' % deep,
        b'{"\\u0073":"x","a":1,"z":%s,"s":"y"}' % deep,
        b'{"s":"x","a":1.5,"z":%s}' % deep,
    )
    decoded = below(stack, lambda: decode(SIMPLE, *messages, kernels=kernels))
    assert decoded.rows.select("s", "a").rows() == [("x", 1)] * 3
    assert decoded.bad.tolist() == [3]
    assert decoded.reasons == ('field "a": expected int64, found number 1.5',)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64", "timestamp", "decimal(10,2)"])
def test_numbers_with_exponents_beyond_all_bounds(dtype: str, kernels: bool) -> None:
    schema = schema_of({"a": dtype})
    zeros = [b'{"a":%s}' % number for number in (b"0e99999999999999999999", b"-0.00E-99999999999999999999", b"0e9999")]
    decoded = decode(schema, *zeros, kernels=kernels)
    assert decoded.reasons == ()
    assert [float(value) for value in decoded.rows["a"].cast(pl.Float64)] == [0, 0, 0]
    decoded = decode(schema, b'{"a":-1.5e-99999999999999999999}', kernels=kernels)
    if dtype.startswith("float"):
        assert decoded.rows["a"].to_list() == [0]
    else:
        assert decoded.reasons == (f'field "a": expected {dtype}, found number -1.5E-999999999999999999',)


def test_of_equal_keys_the_first_holds() -> None:
    for kernels in (True, False):
        decoded = decode(SIMPLE, b'{"s":"x","a":1,"a":"no"}', b'{"s":"y","a":2,"\\u0061":3}', kernels=kernels)
        assert decoded.rows["a"].to_list() == [1, 2]


def test_nothing_at_all() -> None:
    empty = decode(SIMPLE)
    assert empty.rows.equals(SIMPLE.empty())
    assert (empty.good, empty.bad.tolist(), empty.reasons, empty.skipped) == (None, [], (), 0)
    assert decode(SIMPLE, None, None).skipped == 2


def test_a_large_batch_with_one_bad_message_and_one_without() -> None:
    messages: list[bytes | None] = [b'{"s":"%d","a":%d,"t":%d}' % (n, n, n) for n in range(5000)]
    decoder = json_decoder(SIMPLE)
    assert decoder.decode(Messages(pa.array(messages, pa.binary()))).rows["s"].to_list() == [
        str(n) for n in range(5000)
    ]
    messages[3210] = b'{"s":"x","a":1.5}'
    for _ in range(2):
        decoded = decoder.decode(Messages(pa.array(messages, pa.binary())))
        assert decoded.bad.tolist() == [3210]
        assert decoded.rows["a"].to_list() == [n for n in range(5000) if n != 3210]
    messages[::50] = [b"{"] * 100
    for _ in range(2):  # the second time they are expected
        decoded = decoder.decode(Messages(pa.array(messages, pa.binary())))
        assert len(decoded.bad) == 101
        assert decoded.rows["a"].to_list() == [n for n in range(5000) if n != 3210 and n % 50]


def test_integer_and_text_times_in_turn() -> None:
    schema = schema_of({"t": "timestamp", "u": "timestamp(us)"})
    decoder = json_decoder(schema)
    texts = [b'{"t":"2013-01-01T05:00:00Z","u":"2013-01-01 05:00:00"}'] * 3
    numbers = [b'{"t":1357016400000,"u":1357016400000000}'] * 3
    wanted = [dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)] * 3
    for part in (texts, numbers, texts, numbers, [texts[0], numbers[0], texts[0]], [numbers[0], texts[0], numbers[0]]):
        decoded = decoder.decode(Messages(pa.array(part, pa.binary())))
        assert decoded.rows["t"].to_list() == wanted
        assert decoded.rows["u"].to_list() == wanted


def test_slices_of_arrow_arrays() -> None:
    whole = pa.array([GOOD, b"{", None, b'{"s":"y"}', b'{"s":"z"}'], pa.binary())
    for kernels in (True, False):
        decoder = json_decoder(SIMPLE, kernels=kernels)
        assert decoder.decode(Messages(whole[2:])).rows["s"].to_list() == ["y", "z"]
        assert decoder.decode(Messages(whole[3:4])).rows["s"].to_list() == ["y"]
