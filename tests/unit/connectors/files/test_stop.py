"""A files source that stops: what lies before an offset and what lies behind it are the whole, whatever the offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connect.restored import restored
from headrace.connect.source import SourceContext, Split
from headrace.core.errors import UserError
from headrace.core.types import schema_of
from headrace.testing.source_conformance import read_to_end
from headrace_connectors.files import FilesSourceConfig
from headrace_connectors.files.paths import position_of

SCHEMA = schema_of({"id": "int64", "name": "string"})
FORMATS: dict[str, dict[str, Any]] = {"json": {}, "csv": {"header": "true"}, "parquet": {}}


def write(folder: Path, form: str, number: int) -> None:
    path = folder / f"f{number}.{form}"
    rows = range(10 * number, 10 * number + 3)
    match form:
        case "json":
            path.write_text("".join(f'{{"id": {row}}}\n' + "\n" * (row % 2) for row in rows))
        case "csv":
            path.write_text("id,name\n" + "".join(f"{row},x\n" for row in rows))
        case _:
            pl.DataFrame({"id": rows, "name": ["x"] * len(rows)}).write_parquet(path)


def discover(config: FilesSourceConfig, context: SourceContext, known: list[Split] | None = None) -> list[Split]:
    enumerator = config.open_enumerator(context)
    if known is not None:
        enumerator = restored(enumerator, "n", known, foreign=True)
    return list(enumerator.discover())


def read(config: FilesSourceConfig, context: SourceContext, splits: list[Split]) -> tuple[list[Any], list[int]]:
    """Rows, and where each partition stood at its end."""
    reader = config.open_reader(context)
    try:
        reader.assign(splits)
        received = read_to_end(reader, splits)
    finally:
        reader.close()
    ends = [(received.next_positions.get(split.id) or [split.start])[-1] for split in splits]
    return [row for split in splits for row in received.rows.get(split.id, [])], ends


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("rows_max", [1, 2, 100])
def test_every_stop_is_a_cut(tmp_path: Path, form: str, rows_max: int) -> None:
    for number in range(2):
        write(tmp_path, form, number)
    path = str(tmp_path / f"*.{form}")
    context = SourceContext("p", "n", SCHEMA, form, FORMATS[form], poll_rows_max=rows_max)
    whole, _ = read(FilesSourceConfig(path=path), context, discover(FilesSourceConfig(path=path), context))
    assert len(whole) == 6
    for file in range(2):
        for line in range(7):
            stop = position_of(file, line)
            config = FilesSourceConfig.model_validate({"path": path, "stop": {"0": stop}})
            before = discover(config, context)
            first, (end,) = read(config, context, before)
            assert end >= min(stop, position_of(file, 3))
            (behind,) = discover(FilesSourceConfig(path=path), context, before)
            rest, _ = read(FilesSourceConfig(path=path), context, [behind.starting_at(end)])
            assert first + rest == whole, (file, line)
            assert first == whole[: len(first)]
            assert file == 1 or len(first) <= 3


def test_latest_is_the_end_of_the_last_file(tmp_path: Path) -> None:
    write(tmp_path, "json", 0)
    context = SourceContext("p", "n", SCHEMA, "json")
    config = FilesSourceConfig.model_validate({"path": str(tmp_path / "*.json"), "stop": "latest"})
    before = discover(config, context)
    write(tmp_path, "json", 1)
    (split,) = discover(config, context, before)
    assert split.stop == position_of(2, 0), "another job's latest is its own"
    assert before[0].stop == position_of(1, 0)


def test_a_stop_past_the_end(tmp_path: Path) -> None:
    write(tmp_path, "json", 0)
    config = FilesSourceConfig.model_validate({"path": str(tmp_path / "*.json"), "stop": {"0": position_of(1, 1)}})
    with pytest.raises(UserError, match="ends at offset"):
        discover(config, SourceContext("p", "n", SCHEMA, "json"))
