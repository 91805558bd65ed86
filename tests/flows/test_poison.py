"""A soak of poison: rows with hostile values end as their `on_error` says, and none alters another one.

Rows in batches, in slots and in threads, with kernels and without, must end as each of them does alone in its batch.
What a source must refuse is decided by an oracle.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import DataError
from headrace.core.reporting import FAILED
from headrace.kernels.library import KERNELS_VARIABLE, library
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import LocalJob
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.memory import open_collected
from support.control.slots import Attempt, deployed
from support.flows.poison import FLAT, NESTED, Poisoned, poisoned_csv, poisoned_json

FUNCTION = """
import polars as pl

def looked_at(rows: pl.DataFrame) -> pl.DataFrame:
    for row in rows.iter_rows(named=True):
        if row["s"] == "raise" or (row["s"] or "").startswith("xxx"):
            raise ValueError(row["s"][:100])
        if row["s"] == "exit":
            raise SystemExit(3)
        str(row)
    return rows.select("n", "k", "at", "t", "d", "s", "later", "day", long=pl.col("s").str.len_bytes().cast(pl.Int64))
"""
COLUMNS = {
    "later": "t + interval '1 month'",
    "earlier": "t - interval '40 days'",
    "week": "date_trunc('week', t)",
    "year": "date_trunc('year', d)",
    "named": "strftime(t, '%Y-%j %H:%M:%S.%f %b')",
    "last": "last_day(d)",
    "day": "cast(t as date)",
    "text": "cast(t as string) || cast(d as string) || cast(p as string)",
    "whole": "cast(x as int32)",
    "ratio": "1000 // i",
    "more": "i * 1000",
    "cents": "cast(p as decimal(6,2)) * 2",
    "when_x": "to_timestamp(x)",
    "made": "make_date(i + 2000, 2, 28)",
    "read": "try_strptime(s, '%Y-%m-%d %H:%M:%S,%f')",
    "long_ago": "date_diff('month', t, timestamp '2024-01-01')",
}
MAPPED = {
    **{name: FLAT[name] for name in ("n", "k", "at", "t", "d", "s")},
    "later": "timestamp",
    "day": "date",
    "long": "int64",
}
OUTPUTS = {
    "rows": "looked",
    "windows": "w",
    "late": "w.late",
    "no_rows": "s.bad",
    "asked_bad": "asked.bad",
    "looked_bad": "looked.bad",
    "windows_bad": "w.bad",
}


@dataclass(frozen=True)
class Way:
    """A way to run the pipeline."""

    batch: int
    slots: bool
    kernels: bool


ALONE = Way(batch=1, slots=False, kernels=False)
TOGETHER = Way(batch=1_000, slots=False, kernels=True)
WAYS = (Way(batch=40, slots=True, kernels=True), TOGETHER)
MORE_WAYS = (*WAYS, Way(batch=7, slots=False, kernels=True), Way(batch=100, slots=True, kernels=False))
Rows = Sequence[Mapping[str, Any]]
Ends = Mapping[str, Rows]
"""Output -> its rows."""


@pytest.fixture(autouse=True)
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "poison_function.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    library.cache_clear()


def document(folder: Path, form: object, way: Way, policy: str) -> dict[str, Any]:
    outputs = OUTPUTS if policy == "divert" else {name: of for name, of in OUTPUTS.items() if not of.endswith(".bad")}
    return {
        "name": "poison",
        "parallelism": 2,
        "batch": {"max_rows": way.batch},
        "sources": {
            "s": {
                "files": {"path": str(folder / "rows-*")},
                "format": form,
                "schema": FLAT if form == "csv" else NESTED,
                "time": {"column": "at", "out_of_orderness": "10s"},
                "on_error": policy,
            }
        },
        "steps": {
            "asked": {"from": "s", "with_columns": COLUMNS, "on_error": policy},
            "looked": {
                "from": "asked",
                "map": {"function": "poison_function:looked_at", "schema": MAPPED},
                "on_error": policy,
            },
            "w": {
                "from": "looked",
                "key_by": ["k", "t"],
                "window": {"tumbling": "1m"},
                "aggregate": {"c": "count(*)", "m": "max(later)", "long": "sum(long)", "f": "first(s)"},
                "on_error": policy,
            },
        },
        "sinks": {name: {"from": of, "memory": {"name": name}} for name, of in outputs.items()},
    }


def ends(folder: Path, form: object, way: Way, policy: str, monkeypatch: pytest.MonkeyPatch) -> Ends:
    monkeypatch.setenv(KERNELS_VARIABLE, "on" if way.kernels else "off")
    library.cache_clear()
    pipeline = pipeline_from_dict(document(folder, form, way, policy))
    with ExitStack() as stack:
        found = {name: stack.enter_context(open_collected(name)) for name in OUTPUTS}
        if way.slots:
            with deployed(Attempt(pipeline, folder)) as attempt:
                attempt.run_to_the_end()
        else:
            LocalJob(compile_pipeline(pipeline).physical).run()
        return {name: collected.rows() for name, collected in found.items()}


def placed(folder: Path, messages: Sequence[bytes]) -> None:
    """The messages in two files, a line each."""
    for number in range(2):
        (folder / f"rows-{number}").write_bytes(b"".join(message + b"\n" for message in messages[number::2]))


def check_soak(
    folder: Path, form: str, poisoned: Poisoned, ways: Sequence[Way], monkeypatch: pytest.MonkeyPatch
) -> None:
    FAILED.clear()
    placed(folder, poisoned.messages)
    alone = ends(folder, form, ALONE, "divert", monkeypatch)
    if form == "json":
        refused = [message for message in poisoned.messages if poisoned.is_bad(message)]
        assert Counter(row["value"] for row in alone["no_rows"]) == Counter(refused)
    exits = [alone[name] for name in ("no_rows", "rows", "asked_bad", "looked_bad")]
    assert all(exits), "each exit was taken"
    assert sum(map(len, exits)) == len(poisoned.messages)
    good = {place + 1 for place, message in enumerate(poisoned.messages) if not poisoned.is_hostile(message)}
    assert good <= {row["n"] for row in alone["rows"]}
    for way in ways:
        found = ends(folder, form, way, "divert", monkeypatch)
        for name in OUTPUTS:
            assert as_texts(found[name]) == as_texts(alone[name]), (way, name)
    skipped = ends(folder, form, ways[0], "skip", monkeypatch)
    for name in ("rows", "windows", "late"):
        assert as_texts(skipped[name]) == as_texts(alone[name])
    assert not FAILED


def as_texts(rows: Rows) -> Counter[str]:
    return Counter(map(repr, rows))


SOAKS: dict[str, Callable[[int, int], Poisoned]] = {"json": poisoned_json, "csv": poisoned_csv}


@pytest.mark.parametrize("form", SOAKS)
def test_some_hostile_rows_end_alone(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_soak(tmp_path, form, SOAKS[form](43, 150), WAYS, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", SOAKS)
def test_ten_thousand_hostile_rows_end_alone(
    form: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_soak(tmp_path, form, SOAKS[form](seed, 1_000), MORE_WAYS, monkeypatch)


@pytest.mark.parametrize("form", SOAKS)
@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.full)])
def test_where_rows_fail_the_job_the_row_is_named(
    form: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned = SOAKS[form](count, 500)
    placed(tmp_path, poisoned.messages)
    diverted = ends(tmp_path, form, TOGETHER, "divert", monkeypatch)
    bad = [row["n"] for name in ("asked_bad", "looked_bad") for row in diverted[name]]
    unread = {row["value"] for row in diverted["no_rows"]}
    whole = [message for message in poisoned.messages if not poisoned.is_hostile(message)]
    failing = [message for message in poisoned.messages if message in unread or poisoned.number(message) in bad]
    for message in random.Random(count).sample(failing, count):
        placed(tmp_path, [*whole[:20], message, message, *whole[20:40]])
        with pytest.raises(DataError) as caught:
            ends(tmp_path, form, TOGETHER, "fail", monkeypatch)
        assert caught.value.remedy
        assert caught.value.place or re.search(r"failed at s\[[01]\] offset 10\b", str(caught.value))
        assert "Series" not in str(caught.value)
    assert not FAILED
