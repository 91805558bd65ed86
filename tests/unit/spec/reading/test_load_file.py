"""Pipeline files on disk: their encoding, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import InvalidPipelineError, Location, UserError
from headrace.spec.reading.load_file import load_pipeline

pytestmark = pytest.mark.usefixtures("own_connectors")

PIPELINE = """\
name: numbers
sources:
  numbers:
    kafka: {brokers: "localhost:9092", topic: numbers, start: earliest}
    format: json
    schema:
      id: int64 not null
steps:
  big:
    from: numbers
    filter: id > 100
sinks:
  out:
    from: big
    kafka: {brokers: "localhost:9092", topic: out}
    format: json
"""


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + PIPELINE.replace("\n", "\r\n").encode())
    loaded = load_pipeline(path, environ={})
    assert loaded.locate(("name",)) == Location(str(path), 1, 7)
    assert loaded.locate(("steps", "big", "filter")) == Location(str(path), 11, 13)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ":1:1: the file is empty"),
        (b"# only a comment\n", ":1:1: the file is empty"),
        (b"name: \xff\n", ":1:7: this is not UTF-8 text"),
        (b"name: p\nx: \x01\n", ":2:4: the character U+0001 cannot stand in YAML"),
        (b"- a\n", ":1:1: a pipeline is a mapping, not a list"),
        (b"just text\n", ":1:1: a pipeline is a mapping, not 'just text'"),
        (b"name: p\n---\nname: q\n", ":2:1: a second YAML document begins here"),
    ],
)
def test_a_file_that_is_no_pipeline(tmp_path: Path, body: bytes, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(body)
    with pytest.raises(InvalidPipelineError) as raised:
        load_pipeline(path, environ={})
    assert str(raised.value).startswith(f"{path}{message}")


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        load_pipeline(tmp_path / "none.yaml", environ={})
    with pytest.raises(UserError, match="is a folder"):
        load_pipeline(tmp_path, environ={})
