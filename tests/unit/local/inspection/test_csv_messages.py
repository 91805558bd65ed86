"""CSV messages of a topic: delimiter, numbered columns, messages that are no rows."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.local.inspection.csv_messages import delimiter_of, infer_csv_messages
from headrace.local.inspection.infer import schema_lines
from headrace.spec.reading.load import load_text


@pytest.mark.parametrize(
    ("texts", "delimiter"),
    [
        (["a,b", "c,d"], ","),
        (["a;1,5;c", "b;2;d", "c;3;d"], ";"),
        (["a\tb"], "\t"),
        (["a|b|c"], "|"),
        (["one", "two"], ","),
        (['"a;b",c', '"d",e'], ","),
    ],
)
def test_the_delimiter_splits_most_rows_alike(texts: list[str], delimiter: str) -> None:
    assert delimiter_of(texts) == delimiter


def test_columns_are_numbered_and_rubbish_is_left_out() -> None:
    messages = [b"dev-1;2026-11-01T00:00:00Z;23.04;84", b"<rubbish>", b"dev-2;2026-11-01T00:00:01Z;;85\r\n"]

    inferred = infer_csv_messages(messages, "topic iot")

    assert inferred.rows == 2
    assert schema_lines(inferred) == [
        'format: {csv: {delimiter: ";"}}',
        "schema:",
        "  c1: string not null",
        "  c2: timestamp not null",
        "  c3: float64",
        "  c4: int64 not null",
        "time:",
        "  column: c2",
        "  out_of_orderness: 0s  # how late a row may come",
    ]


def test_the_block_reads_as_a_source() -> None:
    block = schema_lines(infer_csv_messages([b"a\t1", b"b\t2"], "topic t"))
    body = "\n".join(f"    {line}" for line in block)
    head = "name: p\nsources:\n  s:\n    kafka: {brokers: b, topic: t}\n"

    loaded = load_text(f"{head}{body}\nsinks:\n  out: {{from: s, print: {{}}}}\n", "p.yaml", environ={})

    source = loaded.pipeline.sources["s"]
    assert source.format is not None
    assert source.format.options == {"delimiter": "\t"}
    assert source.columns.json() == {"c1": "string not null", "c2": "int64 not null"}


def test_a_topic_without_messages_is_refused() -> None:
    with pytest.raises(UserError, match="no rows"):
        infer_csv_messages([], "topic t")
