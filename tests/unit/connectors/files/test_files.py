from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from headrace.connect.format import Decoded, Messages
from headrace.connect.registry import format_named
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.connect.source import MessageBatch, Polled, Reader, RowBatch, SourceContext, SplitId
from headrace.core.batch import TS
from headrace.core.errors import DataError, ExternalError, UserError
from headrace.core.types import schema_of
from headrace.testing.source_conformance import read_to_end
from headrace_connectors.files import FilesSinkConfig, FilesSourceConfig
from headrace_connectors.files.text_rows import CsvDialect, LineFile

SCHEMA = schema_of({"id": "int64", "name": "string"})


def lines_of(pattern: Path, format_name: str = "json", **options: Any) -> list[bytes]:
    context = SourceContext("p", "n", SCHEMA, format_name, options)
    config = FilesSourceConfig(path=str(pattern))
    splits = config.open_enumerator(context).discover()
    reader = config.open_reader(context)
    reader.assign(splits)
    received = read_to_end(reader, splits)
    return [row for rows in received.rows.values() for row in rows]


@pytest.mark.parametrize("block", [1, 3, 7, 1 << 20])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\nbb\n", [b"a", b"bb"]),
        (b"a\r\nbb\r\nc", [b"a", b"bb", b"c"]),
        (b"\xef\xbb\xbfa\n\nb\n\n", [b"a", b"", b"b", b""]),
        (b"one long line\nx\n", [b"one long line", b"x"]),
    ],
)
def test_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, content: bytes, expected: list[bytes]
) -> None:
    monkeypatch.setattr("headrace_connectors.files.text_rows.BLOCK_BYTES", block)
    path = tmp_path / "f"
    path.write_bytes(content)
    for skip in range(len(expected) + 2):
        with closing(LineFile(path, skip=skip)) as file:
            read: list[bytes] = []
            while lines := file.read_records(2)[0]:
                read += lines
            assert read == expected[skip:]
            assert file.next_line == len(expected)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.files.text_rows.LINE_BYTES_MAX", 1 << 20)
    path = tmp_path / "f"
    path.write_bytes(b"ok\n" + b"x" * (3 << 20))
    with closing(LineFile(path)) as file:
        assert file.read_records(10)[0] == [b"ok"]
        with pytest.raises(DataError, match="line 2 is longer than 1 MiB"):
            file.read_records(10)


def test_positions_for_people(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.json"):
        (tmp_path / name).write_text("{}\n{}\n")
    config = FilesSourceConfig(path=str(tmp_path / "*.json"), partitions=2)
    text = config.describe_position(SplitId("n", 0), (1 << 40) | 1)
    assert text == f"{tmp_path / 'c.json'} line 2"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file matches"):
        lines_of(tmp_path / "*.json")
    with pytest.raises(UserError, match="there is no folder"):
        lines_of(tmp_path / "none" / "*.json")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"a,b", [b"a", b"b"]),
        (b"", [b""]),
        (b",", [b"", b""]),
        (b'"a,b",c', [b'"a,b"', b"c"]),
        (b'"a ""q""",', [b'"a ""q"""', b""]),
        (b'a,"open, b', [b"a", b'"open, b']),
    ],
)
def test_split_fields(line: bytes, fields: list[bytes]) -> None:
    assert CsvDialect().split(line) == fields


def test_csv_with_a_header(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('name,extra,id\n"x, y",?,1\n,?,2\nbroken,3\n')
    lines = lines_of(path, "csv", header=True)
    assert lines[:2] == [b'1,"x, y"', b"2,"]
    assert lines[2].count(b",") > 1, "a line with too few fields stays bad"
    path.write_text("'na;me';id\n'x;y';1\n")
    assert lines_of(path, "csv", header=True, delimiter=";", quote="'", null="-") == [b"1;-"]
    path.write_text("id,name\n1,x\n")
    assert lines_of(path, "csv", header=True) == [b"1,x"]
    assert lines_of(path, "csv") == [b"id,name", b"1,x"]


def csv_reader(path: Path, schema: Mapping[str, str]) -> Reader:
    context = SourceContext("p", "n", schema_of(schema), "csv", {"header": "true"})
    config = FilesSourceConfig(path=str(path))
    reader = config.open_reader(context)
    reader.assign(config.open_enumerator(context).discover())
    return reader


def test_csv_header_without_a_needed_column(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("idd,a\n1,2\n")
    with pytest.raises(UserError, match=r"has no column 'id'.*\n.*did you mean 'idd'"):
        csv_reader(path, {"id": "int64 not null", "a": "int64"}).poll(5)


@pytest.mark.parametrize(
    ("header", "remedy"),
    [
        ("ID,Amount", "names are case-sensitive: write 'ID' for 'id'"),
        ("id;amount", 'delimiter: ";"'),
        ("id\tamount", r'delimiter: "\\t"'),
        ("1,2.5", "name the columns in the schema as the file does"),
    ],
)
def test_csv_header_that_fits_nothing_is_an_error_with_both_lists(header: str, remedy: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(f"{header}\n1,2\n")
    with pytest.raises(UserError, match=remedy) as refused:
        csv_reader(path, {"id": "int64", "amount": "float64"}).poll(5)
    assert f"{path} has no column of the schema" in refused.value.message
    assert "the schema has: id, amount" in refused.value.message
    assert f"it has: {', '.join(header.split(','))}" in refused.value.message


def test_csv_header_that_lacks_a_column_is_remarked_once_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    (tmp_path / "b.csv").write_text("amount,id\n1,2\n")
    reader = csv_reader(tmp_path / "*.csv", {"id": "int64", "amount": "float64"})
    polls: list[Polled] = []
    while not polls or not polls[-1].finished:
        polls.append(reader.poll(5))
    (remark,) = [remark for poll in polls for remark in poll.remarks]
    assert remark == f"{tmp_path / 'a.csv'} has no column amount: NULL in all of its rows; it has id"


@pytest.mark.parametrize("name", ["a b.json", "x#1%20.json", "data[1].json", "*.json"])
def test_a_file_of_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("1\n2\n")
    (tmp_path / "data1.json").write_text("3\n")
    assert lines_of(tmp_path / name, "raw") == [b"1", b"2"]
    config = FilesSourceConfig(path=str(tmp_path / name))
    assert config.describe_position(SplitId("elsewhere", 0), 1) == f"{tmp_path / name} line 2"


@pytest.mark.parametrize("form", ["json", "raw", "csv"])
def test_compressed_files_are_read_from_any_line_on(tmp_path: Path, form: str) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n3\n"))
    (tmp_path / "b.zst").write_bytes(pa.compress(b"4\r\n5", codec="zstd", asbytes=True))
    assert lines_of(tmp_path / "*", form) == [b"1", b"2", b"3", b"4", b"5"]
    context = SourceContext("p", "n", SCHEMA, form)
    config = FilesSourceConfig(path=str(tmp_path / "*"))
    (split,) = config.open_enumerator(context).discover()
    reader = config.open_reader(context)
    reader.assign([split.starting_at(2)])
    assert [row for rows in read_to_end(reader, [split]).rows.values() for row in rows] == [b"3", b"4", b"5"]


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        ("json", bz2.compress(b"{}"), r"f is packed with bzip2\n  unpack it, or pack it with gzip or zstd"),
        ("csv", gzip.compress(b"1,a\n" * 1_000)[:-9], r"f is damaged, or not complete: .*\n  copy it anew"),
        ("parquet", gzip.compress(b"PAR1"), r"f is packed with gzip\n  unpack it: Parquet files are compressed inside"),
    ],
    ids=["bzip2", "gzip that is cut", "Parquet in gzip"],
)
def test_files_that_cannot_be_unpacked(tmp_path: Path, form: str, content: bytes, message: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError, match=message):
        lines_of(tmp_path / "f", form)


def test_parquet_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a b[1]#%41*.parquet"
    pl.DataFrame({"id": [1, 2]}).write_parquet(path)
    context = SourceContext("p", "n", SCHEMA, "parquet")
    config = FilesSourceConfig(path=str(path))
    reader = config.open_reader(context)
    reader.assign(config.open_enumerator(context).discover())
    batch = reader.poll(5).batch
    reader.close()
    assert isinstance(batch, RowBatch)
    assert batch.rows["id"].to_list() == [1, 2]


def test_parquet_types_and_missing_columns(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pl.DataFrame({"id": pl.Series([1, 2], dtype=pl.Int32), "other": ["a", "b"]}).write_parquet(path)
    context = SourceContext("p", "n", SCHEMA, "parquet")
    config = FilesSourceConfig(path=str(path))
    reader = config.open_reader(context)
    reader.assign(config.open_enumerator(context).discover())
    batch = reader.poll(5).batch
    reader.close()
    assert isinstance(batch, RowBatch)
    assert batch.rows["id"].to_list() == [1, 2]
    assert batch.rows["id"].dtype == pl.Int64


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_text("nothing of the kind")
    context = SourceContext("p", "n", SCHEMA, "parquet")
    config = FilesSourceConfig(path=str(path))
    reader = config.open_reader(context)
    reader.assign(config.open_enumerator(context).discover())
    with pytest.raises(UserError, match="is no Parquet file"):
        reader.poll(5)


def test_files_are_decoded_by_their_format(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"id":1,"name":"a"}\nrubbish\n{"id":2}\n')
    context = SourceContext("p", "n", SCHEMA, "json")
    config = FilesSourceConfig(path=str(path))
    reader = config.open_reader(context)
    reader.assign(config.open_enumerator(context).discover())
    batch = reader.poll(5).batch
    reader.close()
    assert isinstance(batch, MessageBatch)
    decoded = format_named("json").config().open_decoder(SCHEMA).decode(Messages(batch.values))
    assert isinstance(decoded, Decoded)
    assert decoded.rows["id"].to_list() == [1, 2]
    assert decoded.bad.tolist() == [1]


def batch(*ids: int) -> SinkBatch:
    return SinkBatch(pl.DataFrame({"id": ids, "name": ["n"] * len(ids), TS: ids}))


def test_part_files(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    context = SinkContext("job", "out", 3, 4, SCHEMA, format="json")
    config = FilesSinkConfig(path=str(folder))
    config.prepare(context)
    writer = config.open_writer(context)
    writer.write(batch(1, 2))
    assert all(path.name.startswith(".") for path in folder.iterdir()), "nothing shows before the flush"
    writer.flush(7)
    assert [path.name for path in folder.iterdir()] == ["part-job-7-3-0.json"]
    again = config.open_writer(context)
    again.write(batch(3))
    again.flush(7)
    writer.write(batch(4))
    writer.close()
    again.close()
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["part-job-7-3-0.json", "part-job-7-3-1.json"], "nothing is written over, nothing is left behind"
    assert [json.loads(line) for line in (folder / files[0]).read_text().splitlines()] == [
        {"id": 1, "name": "n"},
        {"id": 2, "name": "n"},
    ]


def test_large_epochs_become_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.files.parts.part_files.FILE_BYTES_MAX", 10)
    writer = FilesSinkConfig(path=str(tmp_path)).open_writer(SinkContext("j", "o", 0, 1, SCHEMA, format="json"))
    for number in range(3):
        writer.write(batch(number))
    writer.flush(1)
    writer.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"part-j-1-0-{number}.json" for number in range(3)]


def test_line_breaks_in_raw_messages_are_refused(tmp_path: Path) -> None:
    schema = schema_of({"v": "string"})
    writer = FilesSinkConfig(path=str(tmp_path)).open_writer(SinkContext("j", "o", 0, 1, schema, format="raw"))
    with pytest.raises(DataError, match="has a line break"):
        writer.write(SinkBatch(pl.DataFrame({"v": ["a\nb"]})))
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be a folder"):
        FilesSinkConfig(path=str(tmp_path / "file")).prepare(SinkContext("j", "o", 0, 1, SCHEMA, format="json"))


def test_a_folder_that_goes_away(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    writer = FilesSinkConfig(path=str(folder)).open_writer(SinkContext("j", "o", 0, 1, SCHEMA, format="json"))
    folder.rmdir()
    with pytest.raises(ExternalError, match="cannot write into"):
        writer.write(batch(1))


def test_what_killed_writers_began_goes_with_the_next_attempt(tmp_path: Path) -> None:
    killed = [".part-job-out-0-0-%s.tmp", ".part-job-out-7-3-%s.tmp"]
    kept = [
        ".part-job-2-out-0-0-%s.tmp",
        ".part-job-other-0-0-%s.tmp",
        ".part-job-out-0-0-5-0-%s.staged",
        ".part-other-out-0-0-%s.tmp",
        "part-job-1-0-0.json",
    ]
    random = "0123456789abcdef" * 2
    for name in killed + kept:
        (tmp_path / name.replace("%s", random)).write_text("half a row")
    writers = [
        FilesSinkConfig(path=str(tmp_path)).open_writer(SinkContext("job", "out", number, 2, SCHEMA, format="json"))
        for number in (0, 1)
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name.replace("%s", random) for name in kept]
    for writer in writers:
        writer.close()
