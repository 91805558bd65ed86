"""Rows of state as files for other programs."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from headrace.checkpoint.inspection.row_files import write_rows
from headrace.core.errors import ExternalError, UserError

ROWS = pl.DataFrame(
    {
        "k": ["a", 'b,"c"', None],
        "n": pl.Series([1, 2**100, None], dtype=pl.Int128),
        "at": pl.Series([0, 1_500_000, None], dtype=pl.Datetime("us", "UTC")),
        "x": [0.5, float("nan"), None],
    }
)
PIECES = [ROWS.head(1), ROWS.tail(2)]


def test_parquet(tmp_path: Path) -> None:
    for name in ("out.parquet", "out.pq", "out"):
        assert write_rows(PIECES, ROWS.schema, tmp_path / name) == 3
        found = pl.read_parquet(tmp_path / name)
        assert found["n"].to_list() == [Decimal(1), Decimal(2**100), None]
        assert found.drop("n").equals(ROWS.drop("n"))


def test_lines_of_json(tmp_path: Path) -> None:
    for name in ("out.json", "out.jsonl", "out.NDJSON"):
        write_rows(PIECES, ROWS.schema, tmp_path / name)
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert [line["k"] for line in lines] == ["a", 'b,"c"', None]
        assert (lines[1]["at"], lines[1]["x"]) == ("1970-01-01T00:00:01.500Z", None)


def test_csv(tmp_path: Path) -> None:
    write_rows(PIECES, ROWS.schema, tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "k,n,at,x"
    assert lines[2].startswith(f'"b,""c""",{2**100},1970-01-01T00:00:01.500Z')
    assert lines[3] == ",,,"


def test_no_rows_make_a_file_of_columns(tmp_path: Path) -> None:
    assert write_rows([], ROWS.schema, tmp_path / "out.parquet") == 0
    assert pl.read_parquet(tmp_path / "out.parquet").columns == ROWS.columns


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("before")
    nested = pl.DataFrame({"k": [[1]]})
    with pytest.raises(UserError, match=r"\.xlsx names no format of rows(.|\n)*\.parquet, \.jsonl or \.csv"):
        write_rows(PIECES, ROWS.schema, tmp_path / "out.xlsx")
    with pytest.raises(UserError, match=r"out\.csv: (.|\n)*\.parquet or \.jsonl"):
        write_rows([nested], nested.schema, target)
    with pytest.raises(UserError, match="cannot be written: No such file"):
        write_rows(PIECES, ROWS.schema, tmp_path / "no" / "out.csv")

    def failing() -> object:
        yield ROWS.head(1)
        raise ExternalError("the file is damaged")

    with pytest.raises(ExternalError):
        write_rows(failing(), ROWS.schema, target)  # type: ignore[arg-type]
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]
