"""The JSON encode kernel beside polars: where text grows, memory ends at a page that cannot be read, or a type is none
for it.

`fuzz/json_encode` compares both on random frames of random schemas, `fuzz/float_text` on floats.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from random import Random

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.float_text import check_floats
from headrace.core.types import Field, ListOf, Primitive, Schema, Struct, schema_of
from headrace.formats.json.encode import JsonEncoder, TimestampStyle, encode_json_object
from headrace.formats.writable_times import TEXT_DAYS
from headrace.kernels.json_encode import json_encode_kernel
from support.kernels.guarded_json import guarded_texts
from support.oracles.formats import frames

SCHEMA = schema_of(
    {
        "s": "string",
        "b": "bool",
        "i": "int32",
        "a": "int64",
        "f": "float64",
        "g": "float32",
        "p": "decimal(38,10)",
        "w": "decimal(5,0)",
        "x": "binary",
        "d": "date",
        "t": "timestamp",
        "l": "[[{u: string, n: float64}]]",
        "o": "{t: timestamp, x: {d: [date], p: decimal(3,3)}, b: [bool]}",
    }
)
_DAY_US = 86_400_000_000


def written(frame: pl.DataFrame, columns: list[str] | None = None, *, epoch_ms: bool = False) -> list[str] | None:
    kernel = json_encode_kernel(frame.columns if columns is None else columns, epoch_ms=epoch_ms)
    assert kernel is not None
    messages = kernel.encode(frame)
    if messages is None:
        return None
    messages.validate(full=True)
    assert messages.type == pa.large_string()
    texts: list[str] = messages.to_pylist()
    return texts


def by_polars(frame: pl.DataFrame, *, timestamps: TimestampStyle = "rfc3339") -> list[str]:
    texts: list[str] = encode_json_object(frame, frame.columns, timestamps=timestamps, kernels=False).to_pylist()
    return texts


@given(frames(SCHEMA), st.booleans(), st.integers(0, 12))
def test_what_is_written_is_what_polars_writes(frame: pl.DataFrame, epoch_ms: bool, begin: int) -> None:
    expected = by_polars(frame, timestamps="epoch_ms" if epoch_ms else "rfc3339")
    assert written(frame, epoch_ms=epoch_ms) == expected
    assert written(frame.slice(begin), epoch_ms=epoch_ms) == expected[begin:]
    guarded = guarded_texts(frame, frame.columns, epoch_ms=epoch_ms)
    assert guarded == [text.encode() for text in expected]


@given(st.lists(st.text(max_size=40), max_size=20))
def test_any_text(texts: list[str]) -> None:
    frame = pl.DataFrame({"s": texts}, schema={"s": pl.String})
    assert written(frame) == by_polars(frame)


def test_each_escape_at_each_place_of_a_text() -> None:
    escapes = ['"', "\\", "\0", "\x1f", "\n", "\x7f", "\u2028", "\U0001f600"]
    texts = [
        "a" * place + escape + "z" * (length - place)
        for escape in escapes
        for length in range(40)
        for place in range(length + 1)
    ]
    frame = pl.DataFrame({"s": texts})
    assert written(frame) == by_polars(frame)


@pytest.mark.parametrize("length", [*range(35), 4095, 4096, 4097])
def test_reading_ends_with_the_text(length: int) -> None:
    frame = pl.DataFrame({"s": ["x" * length], "x": [b"y" * length]})
    assert guarded_texts(frame, ["s", "x"]) == [text.encode() for text in by_polars(frame)]


def test_a_text_that_is_all_escapes_makes_room_for_itself_and_no_more() -> None:
    frame = pl.DataFrame({"s": ["\0" * 100_000, "x" * 100_000, "\n" * 3]})
    for step in (1, 1_000_000):
        assert guarded_texts(frame, ["s"], step_bytes=step) == [text.encode() for text in by_polars(frame)]


def test_rows_that_are_longer_than_guessed() -> None:
    frame = pl.DataFrame(
        {"s": ["x" * (row % 7 * 50) for row in range(1000)], "l": [list(range(row % 11)) for row in range(1000)]}
    )
    assert written(frame) == by_polars(frame)


def test_one_long_text_among_many_rows_takes_no_memory_for_the_others() -> None:
    frame = pl.DataFrame({"s": ["x" * 2_000_000, *["y"] * 20_000]})
    before = pa.total_allocated_bytes()
    messages = encode_json_object(frame, ["s"])
    assert messages.nbytes < pa.total_allocated_bytes() - before < 3 * messages.nbytes
    assert messages.equals(encode_json_object(frame, ["s"], kernels=False))


def test_chunks_that_do_not_lie_alike() -> None:
    numbers = pl.Series("n", [1, 2]).append(pl.Series("n", [3, None, 5]))
    texts = pl.Series("s", ["a", None, "c"]).append(pl.Series("s", ["d", "e" * 20]))
    frame = pl.DataFrame([numbers, texts, pl.Series("f", [0.5] * 5)])
    assert numbers.n_chunks() == 2
    for begin in range(5):
        assert written(frame.slice(begin)) == by_polars(frame)[begin:]


def test_columns_in_any_order_beside_others() -> None:
    frame = pl.DataFrame({"__ts": [1], "a": ["x"], "o": pl.Series(["c"], dtype=pl.Categorical), "b": [2]})
    assert written(frame, ["b", "a"]) == ['{"b":2,"a":"x"}']
    assert written(frame, ["a", "c"]) is None


def test_names_are_escaped() -> None:
    names = ["", 'a"b', "a\\b", "a\nb", "\x01", "\x7f", "é", "x" * 300, '"' * 50, "\u2028"]
    frame = pl.DataFrame({name: [1] for name in names})
    assert written(frame) == by_polars(frame)
    inner = frame.to_struct("o").to_frame()
    assert written(inner) == by_polars(inner)


_NUL_INSIDE = ListOf(Struct((Field("x\0y", Primitive.INT32),)))


@pytest.mark.parametrize("field", [Field("a\0b", Primitive.INT32), Field("o", _NUL_INSIDE)])
def test_a_nul_in_a_name_is_left_to_polars(field: Field) -> None:
    schema = Schema((field,))
    frame = pl.DataFrame([pl.Series(name, [None], dtype=dtype) for name, dtype in schema.polars().items()])
    expected = by_polars(frame)
    assert JsonEncoder(schema).encode(frame).to_pylist() == expected
    assert encode_json_object(frame, frame.columns).to_pylist() == expected


def test_times_up_to_the_ends_of_the_calendar() -> None:
    first, end = TEXT_DAYS
    days = [first, first + 1, -719_529, -719_528, -719_162, -1, 0, 2_932_896, 2_932_897, end - 1]
    micros = [day * _DAY_US + more for day in days for more in (0, 1, 999, 1_000, 999_999, _DAY_US - 1)]
    frame = pl.DataFrame({"t": pl.Series(micros, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))})
    assert written(frame) == by_polars(frame)
    frame = pl.DataFrame({"d": pl.Series(days, dtype=pl.Int32).cast(pl.Date)})
    assert written(frame) == by_polars(frame)


@pytest.mark.parametrize("day", [TEXT_DAYS[0] - 1, TEXT_DAYS[1], 2**31 - 1, -(2**31)])
def test_times_beyond_the_calendar_are_doubt(day: int) -> None:
    good = pl.Series("d", [0, day], dtype=pl.Int32).cast(pl.Date).to_frame()
    assert written(good) is None
    assert written(good.head(1)) == ['{"d":"1970-01-01"}']
    if abs(day) < 2**30:
        micros = day * _DAY_US
        far = pl.Series("t", [micros, None], dtype=pl.Int64).cast(pl.Datetime("us", "UTC")).to_frame()
        assert written(far) is None
        assert written(far, epoch_ms=True) == [f'{{"t":{micros // 1000}}}', '{"t":null}']


@pytest.mark.parametrize(
    "dtype",
    [
        *(pl.Int8, pl.Int16, pl.UInt32, pl.UInt64, pl.Int128, pl.Null, pl.Categorical, pl.Enum(["a"]), pl.Time),
        *(pl.Duration("us"), pl.Datetime("ms"), pl.Datetime("ns", "UTC"), pl.Datetime("us", "Europe/Berlin")),
        *(pl.Array(pl.Int64, 2), pl.Struct({}), pl.List(pl.Int8), pl.Struct({"a": pl.Int64, "b": pl.UInt8})),
    ],
)
def test_other_types_are_left_to_polars(dtype: pl.DataType) -> None:
    frame = pl.DataFrame({"a": [1, 2], "x": pl.Series([None, None], dtype=dtype)})
    assert written(frame) is None
    assert written(frame, ["a"]) == ['{"a":1}', '{"a":2}']


def test_types_nested_too_deep_are_left_to_polars() -> None:
    dtype: pl.DataType = pl.Int64()
    for _ in range(31):
        dtype = pl.List(dtype)
    column = pl.Series([None, []], dtype=dtype)
    assert written(pl.DataFrame({"x": column})) == ['{"x":null}', '{"x":[]}']
    assert written(pl.DataFrame({"x": pl.Series([None, []], dtype=pl.List(dtype))})) is None


def test_naive_times_are_utc() -> None:
    frame = pl.DataFrame({"t": [dt.datetime(2024, 2, 29, 1, 2, 3, 4)]})
    assert written(frame) == by_polars(frame) == ['{"t":"2024-02-29T01:02:03.000004Z"}']


def test_integers_of_each_length() -> None:
    numbers = sorted({sign * (10**power + more) for power in range(19) for more in (-1, 0, 1) for sign in (1, -1)})
    frame = pl.DataFrame({"n": [*numbers, 2**63 - 1, -(2**63)]})
    assert written(frame) == [f'{{"n":{number}}}' for number in frame["n"]]


@pytest.mark.parametrize(("precision", "scale"), [(1, 0), (1, 1), (18, 2), (38, 0), (38, 37), (38, 38)])
def test_decimals(precision: int, scale: int) -> None:
    unscaled = [0, 1, -1, 5, 10**precision - 1, 1 - 10**precision, None]
    values = [
        None if number is None else decimal.Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
        for number in unscaled
    ]
    frame = pl.DataFrame({"p": values}, schema={"p": pl.Decimal(precision, scale)})
    assert written(frame) == by_polars(frame)


def test_powers_of_two_and_ten() -> None:
    twos = [sign * 2.0**power * factor for power in range(-1074, 1024) for sign in (1, -1) for factor in (1, 1.5)]
    tens = [float(f"{lead}e{power}") for power in range(-324, 309) for lead in ("1", "-1", "9.999999999999999", "5.1")]
    finite = [value for value in (*twos, *tens) if abs(value) < 1e308]
    check_floats(pl.Series(finite).to_numpy(), Random(1))
    check_floats(pl.Series(finite).cast(pl.Float32).to_numpy(), Random(1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *(
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-1.5e16, "-1.5e+16"),
        ),
        *((9999999999999998.0, "9999999999999998.0"), (1e-5, "0.00001"), (1e-6, "1e-6"), (1.25e-7, "1.25e-7")),
        *(
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (2.2250738585072014e-308, "2.2250738585072014e-308"),
        ),
        *((float("nan"), "null"), (float("inf"), "null"), (float("-inf"), "null"), (2.0**53, "9007199254740992.0")),
    ],
)
def test_forms_of_float64(value: float, text: str) -> None:
    assert written(pl.DataFrame({"f": [value]})) == [f'{{"f":{text}}}']


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        *((0, "0.0"), (1 << 31, "-0.0"), (1, "1e-45"), (0x7F7FFFFF, "3.4028235e+38"), (0x7F800000, "null")),
        *((0x00800000, "1.1754944e-38"), (0x4B800000, "16777216.0"), (0x358637BD, "0.000001"), (0x33D6BF95, "1e-7")),
        *((0x5368D4A5, "1000000000000.0"), (0x551184E7, "1e+13"), (0x7FC00000, "null")),
    ],
)
def test_forms_of_float32(bits: int, text: str) -> None:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    assert written(pl.DataFrame({"f": pl.Series([value], dtype=pl.Float32)})) == [f'{{"f":{text}}}']
