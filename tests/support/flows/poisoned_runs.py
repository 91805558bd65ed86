"""Runs of a pipeline over hostile rows: the same rows in slots, in threads and by the Spark engine.

The pipeline has a step of each kind that can refuse a row, and a sink in memory at each of their exits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, assert_never

import pytest

from headrace.kernels.library import KERNELS_VARIABLE, library
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import LocalJob
from headrace.spark.driver.exchange import Exchange
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.memory import open_collected
from support.control.slots import Attempt, deployed
from support.flows.engines import Stretch, replayed
from support.flows.poison import FLAT, NESTED
from support.spark.local_exchange import LocalExchange

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
    """A way to run a pipeline. batch: rows of a batch, at most; Spark's tasks choose their own."""

    batch: int
    engine: Literal["threads", "slots", "spark"]
    kernels: bool


Rows = Sequence[Mapping[str, Any]]
Ends = Mapping[str, Rows]
"""Output -> its rows."""


@contextmanager
def hostile_function(folder: Path) -> Iterator[None]:
    """The module of the pipeline's function, on the import path."""
    (folder / "poison_function.py").write_text(FUNCTION)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        # one of the same name, out of another folder, would be named in this one's errors
        sys.modules.pop("poison_function", None)
        yield
    sys.modules.pop("poison_function", None)


def document(folder: Path, form: object, policy: str) -> dict[str, Any]:
    """The pipeline over `rows-*` of a folder."""
    outputs = OUTPUTS if policy == "divert" else {name: of for name, of in OUTPUTS.items() if not of.endswith(".bad")}
    return {
        "name": "poison",
        "parallelism": 2,
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


def ends(folder: Path, form: object, way: Way, policy: str, exchange: Exchange | None = None) -> Ends:
    """What is at each exit of the pipeline. exchange: as `run` takes it."""
    with ExitStack() as stack:
        found = {name: stack.enter_context(open_collected(name)) for name in OUTPUTS}
        run(document(folder, form, policy), way, folder, exchange)
        return {name: collected.rows() for name, collected in found.items()}


def run(pipeline: Mapping[str, Any], way: Way, folder: Path, exchange: Exchange | None = None) -> None:
    """Runs a pipeline in its file form to its end. exchange: of Spark; without it, tasks run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KERNELS_VARIABLE, "on" if way.kernels else "off")
        library.cache_clear()
        try:
            _run(pipeline, way, folder, exchange or LocalExchange(way.batch))
        finally:
            library.cache_clear()


def _run(pipeline: Mapping[str, Any], way: Way, folder: Path, exchange: Exchange) -> None:
    model = pipeline_from_dict({**pipeline, "batch": {"max_rows": way.batch}})
    match way.engine:
        case "threads":
            LocalJob(compile_pipeline(model).physical).run()
        case "slots":
            with deployed(Attempt(model, folder)) as attempt:
                attempt.run_to_the_end()
        case "spark":
            replayed(Stretch(model.to_dict(), parallelism=2, closes=True), exchange, folder)
        case _:
            assert_never(way.engine)


def placed(folder: Path, messages: Sequence[bytes]) -> None:
    """The messages in two files, a line each."""
    for number in range(2):
        (folder / f"rows-{number}").write_bytes(b"".join(message + b"\n" for message in messages[number::2]))
