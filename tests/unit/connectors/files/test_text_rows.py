"""Records of CSV files over several lines, compared with a reader that looks at one character after the other."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Decoded, Messages
from headrace.connect.registry import format_named
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.connect.source import MessageBatch, SourceContext, Split
from headrace.core.batch import TS
from headrace.core.types import schema_of
from headrace.formats.csv.line import Dialect, LineReader, MalformedLineError
from headrace_connectors.files import FilesSinkConfig, FilesSourceConfig, text_rows
from headrace_connectors.files.text_rows import RECORD_LINES_MAX, CsvDialect, RecordFile

COMMA = CsvDialect()


def records(
    path: Path, dialect: CsvDialect = COMMA, *, skip: int = 0, at_once: int = 1 << 40
) -> list[tuple[int, bytes]]:
    """(line, record) of all records."""
    found: list[tuple[int, bytes]] = []
    with closing(RecordFile(path, dialect, skip=skip)) as file:
        while True:
            texts, lines = file.read_records(at_once)
            if not texts:
                return found
            found += zip(lines.tolist(), texts, strict=True)


def expected(content: bytes, dialect: CsvDialect = COMMA) -> list[tuple[int, bytes]]:
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    found, place = [], 0
    while place < len(lines):
        count = lines_of(lines[place:], dialect)
        record = b"\n".join(lines[place : place + count])
        found.append((place, record.removesuffix(b"\r")))
        place += count
    return found


def lines_of(lines: Sequence[bytes], dialect: CsvDialect) -> int:
    """The number of lines of the record that begins them, if it is well-formed and not too large, or else 1."""
    text = b"\n".join(lines[: text_rows.RECORD_LINES_MAX]) + b"\n"
    quote, delimiter = dialect.quote[0], dialect.delimiter[0]
    place = 0
    while place < len(text):
        if text[place] == quote:
            place += 1
            while place < len(text) and (text[place] != quote or text[place + 1] == quote):
                place += 2 if text[place] == quote else 1
            place += 1
            if text[place : place + 2] == b"\r\n":
                place += 1
        else:
            while text[place] not in (delimiter, ord("\n")):
                place += 1
        if text[place : place + 1] == b"\n":
            count = text.count(b"\n", 0, place) + 1
            # the CR of the line end is not of the record
            return count if place - text.endswith(b"\r", 0, place) <= text_rows.RECORD_BYTES_MAX else 1
        if text[place : place + 1] != dialect.delimiter:
            return 1
        place += 1
    raise AssertionError("a line has an end")


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'1,"two\nlines",3\n', [(0, b'1,"two\nlines",3')]),
        (b'1,"two\r\nlines",3\r\n2,x,4\r\n', [(0, b'1,"two\r\nlines",3'), (2, b"2,x,4")]),
        (b'"a\n\n\nb"\nc', [(0, b'"a\n\n\nb"'), (4, b"c")]),
        (b'"a ""q""\n""",b\n', [(0, b'"a ""q""\n""",b')]),
        (b'5" pipe,3\n"x",6"\n', [(0, b'5" pipe,3'), (1, b'"x",6"')]),
        (b'5","two\nlines"\n', [(0, b'5","two\nlines"')]),
        (b'1,"open\n2,b\n3,"c"\n', [(0, b'1,"open'), (1, b"2,b"), (2, b'3,"c"')]),
        (b'1,"open\n2,"two\nlines"\n', [(0, b'1,"open'), (1, b'2,"two\nlines"')]),
        (b'1,"a"x\n2,b', [(0, b'1,"a"x'), (1, b"2,b")]),
        (b'1,"open', [(0, b'1,"open')]),
        (b"", []),
    ],
)
def test_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, content: bytes, found: list[tuple[int, bytes]]
) -> None:
    monkeypatch.setattr("headrace_connectors.files.text_rows.BLOCK_BYTES", block)
    path = tmp_path / "f.csv"
    path.write_bytes(content)
    assert records(path) == found == expected(content)


PIECES = st.sampled_from([b'"', b'"', b",", b"\n", b"\n", b"\r\n", b"a", b'""', b'",', b',"'])


PIECES = st.sampled_from([b'"', b'"', b",", b"\n", b"\n", b"\r\n", b"a", b'""', b'",', b',"'])


@given(
    content=st.lists(PIECES, max_size=40).map(b"".join),
    block=st.integers(1, 20),
    at_once=st.integers(1, 4),
    lines_max=st.integers(2, 4),
    bytes_max=st.integers(4, 20),
)
def test_records_are_those_of_a_reader_of_characters(
    content: bytes, block: int, at_once: int, lines_max: int, bytes_max: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace_connectors.files.text_rows.BLOCK_BYTES", block)
        patched.setattr(text_rows, "RECORD_LINES_MAX", lines_max)
        patched.setattr(text_rows, "RECORD_BYTES_MAX", bytes_max)
        path = Path(folder) / "f.csv"
        path.write_bytes(content)
        whole = expected(content)
        assert records(path, at_once=at_once) == whole
        for skip in range(content.count(b"\n") + 2):
            assert records(path, skip=skip) == [each for each in whole if each[0] >= skip]


def test_a_quote_that_is_never_closed_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('1,"open\n' + "".join(f"{n},x\n" for n in range(2, 3 * RECORD_LINES_MAX)))
    found = records(path)
    assert len(found) == 3 * RECORD_LINES_MAX - 1
    assert [line for line, _ in found] == list(range(len(found)))


def test_a_record_of_too_many_lines_is_one_line_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    fits = '1,"' + "\n" * (RECORD_LINES_MAX - 1) + '"\n'
    path.write_text(fits + "2,b\n")
    assert [line for line, _ in records(path)] == [0, RECORD_LINES_MAX]
    path.write_text(fits.replace('1,"', '1,"\n') + "2,b\n")
    assert len(records(path)) == RECORD_LINES_MAX + 2


@given(
    st.lists(st.sampled_from(["a", '"', '""', ",", "\n", '",', ',"', '"a"', "", "x y"]), max_size=12).map("".join),
)
def test_fields_are_separated_as_the_format_reads_them(record: str) -> None:
    fields = [raw.decode() for raw in COMMA.split(record.encode())]
    assert ",".join(fields) == record
    reader = LineReader(Dialect(",", '"', ""))
    try:
        whole = reader.fields(record)
    except MalformedLineError:
        return
    assert [one for raw in fields for one in reader.fields(raw)] == whole


# ---- written and read ------------------------------------------------------------------------------------------------

SCHEMA = schema_of({"id": "int64", "text": "string", "more": "string"})
TEXTS = st.one_of(
    st.none(), st.lists(st.sampled_from(["a", '"', ",", "\n", "\r\n", "\r", "é"]), max_size=6).map("".join)
)


def read(path: Path, **options: object) -> pl.DataFrame:
    context = SourceContext("p", "n", SCHEMA, "csv", options, poll_rows_max=3)
    config = FilesSourceConfig(path=str(path))
    reader = config.open_reader(context)
    splits = config.open_enumerator(context).discover()
    reader.assign(splits)
    decoder = format_named("csv").config.model_validate(options).open_decoder(SCHEMA)
    frames, finished = [SCHEMA.empty()], False
    while not finished:
        polled = reader.poll(5)
        finished = bool(polled.finished)
        if isinstance(polled.batch, MessageBatch):
            decoded = decoder.decode(Messages(polled.batch.values))
            assert isinstance(decoded, Decoded)
            assert not decoded.reasons
            frames.append(decoded.rows)
    reader.close()
    return pl.concat(frames)


@given(rows=st.lists(st.tuples(st.integers(0, 9), TEXTS, TEXTS), min_size=1, max_size=8), header=st.booleans())
def test_rows_with_line_breaks_are_written_and_read_back(
    rows: list[tuple[int, str | None, str | None]], header: bool
) -> None:
    frame = pl.DataFrame(rows, SCHEMA.polars(), orient="row")
    context = SinkContext("j", "out", 0, 1, SCHEMA, format="csv", format_options={"header": header})
    with TemporaryDirectory() as folder:
        config = FilesSinkConfig(path=folder)
        assert config.open_check(context, None) is None
        writer = config.open_writer(context)
        writer.write(SinkBatch(frame.with_columns(pl.lit(0).alias(TS))))
        writer.flush(1)
        writer.close()
        (path,) = Path(folder).iterdir()
        assert read(path, header=header).equals(frame)
        # Python's reader of CSV agrees, but for NULL
        texts = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
        assert texts[header:] == [[str(n), a or "", b or ""] for n, a, b in rows]


def test_a_line_of_blanks_is_a_row_if_its_text_was_written(tmp_path: Path) -> None:
    schema = schema_of({"text": "string"})
    writer = FilesSinkConfig(path=str(tmp_path)).open_writer(SinkContext("j", "out", 0, 1, schema, format="csv"))
    writer.write(SinkBatch(pl.DataFrame({"text": ["", " ", "\t", "\n", "a"], TS: [0] * 5})))
    writer.flush(1)
    writer.close()
    (path,) = tmp_path.iterdir()
    assert [text for _, text in records(path)] == [b'""', b'" "', b'"\t"', b'"\n"', b"a"]


def test_a_header_of_several_lines_and_columns_in_another_order(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('"more",id,"a long\nname",text\n"x\ny",1,,"5"" pipe"\n5" pipe,2,,"p\nq"\n')
    assert read(path, header=True).rows() == [(1, '5" pipe', "x\ny"), (2, "p\nq", '5" pipe')]


def test_a_row_of_tabs_is_no_blank_line(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("1\ta\tb\n\t\t\n\n  \r\n2\t\t\n")
    assert read(path, delimiter="\t").rows() == [(1, "a", "b"), (None, None, None), (2, None, None)]


def test_a_cut_inside_of_a_record_gives_each_record_to_one_side(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('1,a,b\n2,"two\n\nlines",b\n3,a,b\n')
    context = SourceContext("p", "n", SCHEMA, "csv")
    config = FilesSourceConfig(path=str(path))
    (split,) = config.open_enumerator(context).discover()
    for cut in range(6):
        first = lines(config, context, Split(split.id, 0, cut, split.detail)) if cut else []
        assert first + lines(config, context, split.starting_at(cut)) == [0, 1, 4]


def lines(config: FilesSourceConfig, context: SourceContext, split: Split) -> list[int]:
    reader = config.open_reader(context)
    reader.assign([split])
    found: list[int] = []
    finished = False
    while not finished:
        polled = reader.poll(5)
        finished = bool(polled.finished)
        assert all(split.stop is None or each <= split.stop for each in polled.positions.values())
        found += [] if polled.batch is None else polled.batch.positions.tolist()
    reader.close()
    return found
