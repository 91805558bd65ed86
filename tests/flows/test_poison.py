"""A soak of poison: rows with hostile values end as their `on_error` says, and none alters another one.

Rows in batches, in slots, in threads and by the Spark engine, with kernels and without, must end as each of them does
alone in its batch. What a source must refuse is decided by an oracle.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import filterfalse
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.core.errors import DataError
from headrace.core.reporting import FAILED
from headrace_connectors.memory import open_collected
from support.flows.poison import Poisoned, poisoned_csv, poisoned_json, poisoned_rows
from support.flows.poisoned_runs import OUTPUTS, Rows, Way, ends, hostile_function, placed, run

ALONE = Way(batch=1, engine="threads", kernels=False)
TOGETHER = Way(batch=1_000, engine="threads", kernels=True)
SPARK = Way(batch=40, engine="spark", kernels=True)
WAYS = (Way(batch=40, engine="slots", kernels=True), TOGETHER, SPARK)
MORE_WAYS = (
    *WAYS,
    Way(batch=7, engine="threads", kernels=True),
    Way(batch=100, engine="slots", kernels=False),
    Way(batch=7, engine="spark", kernels=False),
)


@pytest.fixture(autouse=True)
def function(tmp_path: Path) -> Iterator[None]:
    with hostile_function(tmp_path):
        yield


def check_soak(folder: Path, form: str, poisoned: Poisoned, ways: Sequence[Way]) -> None:
    FAILED.clear()
    placed(folder, poisoned.messages)
    alone = ends(folder, form, ALONE, "divert")
    if form == "json":
        refused = [message for message in poisoned.messages if poisoned.is_bad(message)]
        assert Counter(row["value"] for row in alone["no_rows"]) == Counter(refused)
    exits = [alone[name] for name in ("no_rows", "rows", "asked_bad", "looked_bad")]
    assert all(exits), "each exit was taken"
    assert sum(map(len, exits)) == len(poisoned.messages)
    good = {place + 1 for place, message in enumerate(poisoned.messages) if not poisoned.is_hostile(message)}
    assert good <= {row["n"] for row in alone["rows"]}
    for way in ways:
        found = ends(folder, form, way, "divert")
        for name in OUTPUTS:
            assert as_texts(found[name]) == as_texts(alone[name]), (way, name)
    skipped = ends(folder, form, ways[0], "skip")
    for name in ("rows", "windows", "late"):
        assert as_texts(skipped[name]) == as_texts(alone[name])
    assert not FAILED


def as_texts(rows: Rows) -> Counter[str]:
    return Counter(map(repr, rows))


SOAKS: dict[str, Callable[[int, int], Poisoned]] = {"json": poisoned_json, "csv": poisoned_csv}


@pytest.mark.parametrize("form", SOAKS)
def test_some_hostile_rows_end_alone(form: str, tmp_path: Path) -> None:
    check_soak(tmp_path, form, SOAKS[form](43, 150), WAYS)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", SOAKS)
def test_ten_thousand_hostile_rows_end_alone(form: str, seed: int, tmp_path: Path) -> None:
    check_soak(tmp_path, form, SOAKS[form](seed, 1_000), MORE_WAYS)


@pytest.mark.parametrize("form", SOAKS)
@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.full)])
def test_where_rows_fail_the_job_the_row_is_named(form: str, count: int, tmp_path: Path) -> None:
    poisoned = SOAKS[form](count, 500)
    placed(tmp_path, poisoned.messages)
    diverted = ends(tmp_path, form, TOGETHER, "divert")
    bad = [row["n"] for name in ("asked_bad", "looked_bad") for row in diverted[name]]
    unread = {row["value"] for row in diverted["no_rows"]}
    whole = [message for message in poisoned.messages if not poisoned.is_hostile(message)]
    failing = [message for message in poisoned.messages if message in unread or poisoned.number(message) in bad]
    for message in random.Random(count).sample(failing, count):
        placed(tmp_path, [*whole[:20], message, message, *whole[20:40]])
        with pytest.raises(DataError) as caught:
            ends(tmp_path, form, TOGETHER, "fail")
        assert caught.value.remedy
        assert caught.value.place or re.search(r"failed at s\[[01]\] offset 10\b", str(caught.value))
        assert "Series" not in str(caught.value)
    assert not FAILED


@pytest.mark.parametrize("count", [60, pytest.param(5_000, marks=pytest.mark.full)])
def test_hostile_rows_of_parquet_end_as_those_of_json(count: int, tmp_path: Path) -> None:
    """What both can hold, in the same files; columns also hold what their source must refuse."""
    poisoned = poisoned_json(count, count)
    table, bad = poisoned_rows(poisoned, count)
    numbers = table["n"].to_pylist()
    for file in range(2):
        pq.write_table(table.take(list(range(file, len(table), 2))), tmp_path / f"rows-{file}")
    found = [ends(tmp_path, "parquet", way, "divert") for way in WAYS]
    for file in range(2):
        lines = [poisoned.message(number) for number in numbers[file::2] if number not in bad]
        (tmp_path / f"rows-{file}").write_bytes(b"".join(line + b"\n" for line in lines))
    right = ends(tmp_path, "json", TOGETHER, "divert")
    assert not right["no_rows"]
    for each in found:
        assert len(each["no_rows"]) == len(bad)
        for name in ("rows", "windows", "late"):
            assert as_texts(each[name]) == as_texts(right[name]), name
        for name in ("asked_bad", "looked_bad"):
            assert {row["n"] for row in each[name]} == {row["n"] for row in right[name]}
    assert bad
    assert not FAILED


@pytest.mark.parametrize("count", [60, pytest.param(5_000, marks=pytest.mark.full)])
def test_raw_lines_are_texts_or_bad(count: int, tmp_path: Path) -> None:
    messages = poisoned_json(count, count).messages
    placed(tmp_path, messages)
    source = {"files": {"path": str(tmp_path / "rows-*")}, "format": "raw", "schema": {"text": "string"}}
    sinks = {"rows": {"from": "s", "memory": {"name": "rows"}}, "bad": {"from": "s.bad", "memory": {"name": "bad"}}}
    pipeline = {"name": "raw", "sources": {"s": source | {"on_error": "divert"}}, "sinks": sinks}
    for way in WAYS:
        with open_collected("rows") as rows, open_collected("bad") as bad:
            run(pipeline, way, tmp_path)
            assert Counter(row["text"].encode() for row in rows.rows()) == Counter(filter(is_utf8, messages))
            assert Counter(row["value"] for row in bad.rows()) == Counter(filterfalse(is_utf8, messages))


def is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
