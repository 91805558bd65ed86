"""CSV lines: both readings agree on any line and any cut, what is written is read back, options do what they say."""

from __future__ import annotations

import csv
import datetime as dt
import io
import subprocess
import sys

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Messages
from headrace.core.types import Field, ListOf, Primitive, Schema, schema_of
from headrace.formats.csv import FORMAT, CsvFormat
from headrace.formats.csv.decode import csv_decoder
from headrace.formats.csv.line import Dialect
from support.oracles.formats import decoded_rows, frames

SCHEMA = schema_of(
    {
        "a": "int64",
        "i": "int32 not null",
        "f": "float64",
        "g": "float32",
        "s": "string",
        "b": "bool",
        "t": "timestamp",
        "d": "date",
        "x": "binary",
        "p": "decimal(6,2)",
    }
)
COMMA = Dialect(",", '"', "")
_FITTING = ["1", "2", "1.5", "0.1", "JFK", "true", "2013-01-01T05:00:00Z", "2013-01-01", "YWI=", "1.25"]
_FIELDS = [
    *(
        "",
        '""',
        "1",
        "+1",
        "007",
        "-0",
        "1.0",
        "1e3",
        "1e400",
        "NaN",
        "-inf",
        "3.4028235677973366e38",
        "9223372036854775808",
    ),
    *(
        "2147483648",
        '"1"',
        '"x"',
        '"a,b"',
        '"a""b"',
        '"a\nb"',
        'a"b',
        '"a"b',
        '"a',
        " 1",
        "1 ",
        "é",
        "true",
        "TRUE",
        "x\ny",
    ),
    *(
        "2013-01-01T05:00:00.5+02:00",
        "2013-01-01 05:00:00",
        "1357016400000",
        "99999999999999999999",
        "2013-02-29",
        "YWI",
        ",",
    ),
    *(
        "12345.67",
        "1234.567",
        "1.500",
        "-0.10",
        ".5",
        "1.",
        "1e1",
        "0x1",
        "1_0",
        "null",
        "\r",
        "\x00",
        "0000-01-01",
        "\u0661",
    ),
]


@st.composite
def line(draw: st.DrawFn) -> bytes | None:
    fields = list(_FITTING)
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        fields[draw(st.integers(0, len(fields) - 1))] = draw(st.one_of(st.sampled_from(_FIELDS), st.text(max_size=4)))
    raw = (",".join(fields) + draw(st.sampled_from(["", "", "\n", "\r\n", "\r", "\n\n"]))).encode()
    match draw(st.integers(0, 19)):
        case 0:
            return raw[: draw(st.integers(0, len(raw)))]
        case 1:
            return draw(
                st.sampled_from([None, b"", b"\n", b"\xff" + raw, raw + b",", b'"', b",,,,,,,,,", b",1,,,,,,,,"])
            )
        case _:
            return raw


@given(st.lists(line(), max_size=20))
def test_both_readings_agree_for_every_cut(messages: list[bytes | None]) -> None:
    wanted = decoded_rows(csv_decoder(SCHEMA, COMMA, SCHEMA.names, kernels=False), messages, 1000)
    for size in (1, 7, 500):
        found = decoded_rows(csv_decoder(SCHEMA, COMMA, SCHEMA.names, kernels=True), messages, size)
        for raw, left, right in zip(messages, found, wanted, strict=True):
            assert repr(left) == repr(right), raw


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1), min_size=3, max_size=3)
    )
)
def test_fields_are_split_as_the_standard_library_does(table: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    messages = [message.encode() for message in out.getvalue().split("\n")[:-1]]
    schema = schema_of({"a": "string", "b": "string", "c": "string"})
    for kernels in (True, False):
        decoded = csv_decoder(schema, COMMA, schema.names, kernels=kernels).decode(
            Messages(pa.array(messages, pa.binary()))
        )
        assert decoded.rows.rows() == [tuple(row) for row in table]


@given(frames(SCHEMA), st.sampled_from([",", ";", "\t", "|", ":", "/"]), st.sampled_from(["", "NULL", "0", "\\N"]))
def test_what_is_written_is_read_back(frame: pl.DataFrame, delimiter: str, null: str) -> None:
    options = CsvFormat(delimiter=delimiter, null=null)
    messages = options.open_encoder(SCHEMA).encode(frame)
    assert messages.null_count == 0
    for kernels in (True, False):
        dialect = Dialect(delimiter, '"', null)
        decoder = csv_decoder(SCHEMA, dialect, SCHEMA.names, kernels=kernels)
        decoded = decoder.decode(Messages(messages.cast(pa.large_binary())))
        assert decoded.reasons == ()
        assert decoded.rows.equals(frame)


def _reasons(schema: Schema, *messages: bytes | None) -> tuple[str, ...]:
    return CsvFormat().open_decoder(schema).decode(Messages(pa.array(list(messages), pa.binary()))).reasons


def test_reasons_name_the_field_and_what_was_found() -> None:
    schema = schema_of({"id": "int64 not null", "delay": "float64"})
    assert _reasons(
        schema, b"1,NA", b"x,1", b",1", b"1", b"1,2,3", b'"1,2', b'"1"x,2', b"\xff,1", b"1,2\n3", None, b"1,"
    ) == (
        'field "delay": expected float64, found "NA"',
        'field "id": expected int64, found "x"',
        'field "id" is not null but null',
        "expected 2 fields, found 1",
        "expected 2 fields, found 3",
        "no closing quote after character 0",
        "text after a closing quote at character 3",
        "not UTF-8: byte 0xff at 0",
        "newline outside of quotes at character 3",
    )


def test_a_doubled_quote_does_not_close_a_field() -> None:
    schema = schema_of({"a": "string", "b": "string"})
    assert _reasons(schema, b'"a"",b', b'"a""', b'"",""') == ("no closing quote after character 0",) * 2


def test_a_long_quoted_field_takes_little_memory() -> None:
    # the stack of `re` is on no Python heap: only the process shows it
    program = """if True:
        import re
        from pathlib import Path
        from headrace.formats.csv.line import Dialect, LineReader
        peak_kib = lambda: int(re.search(r"VmHWM:\\s*([0-9]+)", Path("/proc/self/status").read_text())[1])
        reader, line, before = LineReader(Dialect(",", '"', "")), '"' + 'a""' * 350_000 + '"', peak_kib()
        assert len(reader.fields(line)[0].text) == 700_000
        print((peak_kib() - before) >> 10)
    """
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 20, "MiB for a line of one"


def test_quoted_empty_is_a_string_and_unquoted_empty_is_null() -> None:
    schema = schema_of({"a": "string", "b": "string"})
    decoded = CsvFormat().open_decoder(schema).decode(Messages(pa.array([b'"",', b',""'], pa.binary())))
    assert decoded.rows.rows() == [("", None), (None, "")]


def test_null_text() -> None:
    schema = schema_of({"a": "string", "n": "int64"})
    options = CsvFormat(null="NA")
    decoded = options.open_decoder(schema).decode(Messages(pa.array([b"NA,NA", b'"NA",1', b",2", b"x,"], pa.binary())))
    assert decoded.rows.rows() == [(None, None), ("NA", 1), ("", 2)]
    assert decoded.reasons == ('field "n": expected int64, found ""',)
    assert options.open_encoder(schema).encode(decoded.rows).to_pylist() == ["NA,NA", '"NA",1', ",2"]


def test_header_of_files() -> None:
    schema = schema_of({"b": "int64", "a": "string"})
    assert CsvFormat().open_encoder(schema).file_header() == b""
    assert CsvFormat(header=True).open_encoder(schema).file_header() == b"b,a\n"
    odd = schema_of({'a"b': "int64", "c,d": "int64"})
    assert CsvFormat(header=True).open_encoder(odd).file_header() == b'"a""b","c,d"\n'


def test_columns_may_stand_in_another_order_and_others_between() -> None:
    schema = schema_of({"b": "int64", "a": "string"})
    decoded = (
        CsvFormat(columns=("a", "other", "b")).open_decoder(schema).decode(Messages(pa.array([b"x,y,1"], pa.binary())))
    )
    assert decoded.rows.rows() == [(1, "x")]


def test_columns_that_the_line_lacks_are_null() -> None:
    schema = schema_of({"a": "int64", "t": "timestamp", "n": "int64 not null"})
    options = CsvFormat(columns=("n", "z"))
    assert options.check_source(schema) == []
    for kernels in (True, False):
        decoder = csv_decoder(schema, COMMA, ("n", "z"), kernels=kernels)
        assert decoder.decode(Messages(pa.array([b"5,x"], pa.binary()))).rows.rows() == [(None, None, 5)]
    assert CsvFormat(columns=("a",)).check_source(schema) == [
        'column "n" is not null but not among the columns of the file'
    ]


def test_nesting_is_refused_before_anything_runs() -> None:
    schema = Schema((Field("l", ListOf(Primitive.INT64)),))
    assert CsvFormat().check_source(schema) == ['column "l" is [int64]: CSV has no lists or structs']
    assert CsvFormat().check_sink(schema) == CsvFormat().check_source(schema)


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ""},
        {"delimiter": "ab"},
        {"delimiter": "1"},
        {"quote": ","},
        {"null": "a,b"},
        {"columns": ["a"], "header": True},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"character|null|columns"):
        CsvFormat.model_validate(options)


def test_times_are_written_as_in_json() -> None:
    schema = schema_of({"t": "timestamp"})
    frame = pl.DataFrame({"t": [dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)]}, schema=schema.polars())
    assert CsvFormat().open_encoder(schema).encode(frame).to_pylist() == ["2013-01-01T05:00:00.000Z"]
    assert FORMAT.name == "csv"
