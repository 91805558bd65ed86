"""Savepoints and job folders with the state of two aggregating steps, written as subtasks write it, without a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord
from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.checkpoint.savepoints.savepoint import write_savepoint
from headrace.checkpoint.stores.opening import open_folder
from headrace.checkpoint.unique_names import unique_part
from headrace.core.batch import TS
from headrace.core.group_ranges import group_span
from headrace.core.keygroups import key_groups
from headrace.core.source_state import SourceState, SplitState
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.operator import MultiInputOperator
from headrace.operators.window.definitions import Tumbling
from headrace.worker.state.state_files import write_whole
from support.oracles.collector import Collected

GROUPS = 12
INPUT = schema_of({"shop": "string", "till": "int64", "price": "float64", "item": "string"})
TOTALS = AggregateConfig(
    node="totals",
    keys=("shop", "till"),
    window=None,
    aggregates=(
        ("n", "count(*)"),
        ("total", "sum(price)"),
        ("mean", "avg(price) + 1"),
        ("items", "count(distinct item)"),
    ),
    input=INPUT,
)
HOURLY = AggregateConfig(
    node="hourly",
    keys=("shop",),
    window=Tumbling(3_600_000),
    aggregates=(("n", "count(*)"), ("best", "max(price)")),
    input=INPUT,
)


def sales(rows: int, *, first: int = 0) -> pl.DataFrame:
    """Rows of 100 keys in two shops and tills, over five hours."""
    numbers = pl.int_range(first, first + rows, eager=True)
    return pl.DataFrame(
        {
            "shop": pl.select(pl.when(numbers % 3 == 0).then(pl.lit("north")).otherwise(pl.lit("south"))).to_series(),
            "till": numbers % 50,
            "price": (numbers % 7) / 4,
            "item": (numbers % 11).cast(pl.String),
            TS: numbers * 60_000 % 18_000_000,
        }
    )


def handles_of(
    folder: Path, config: AggregateConfig, batches: Sequence[pl.DataFrame], *, of: int = 2, watermark: int | None = None
) -> list[StateHandle]:
    """The handles of a step's state once it has taken these rows. watermark: windows that end by it have fired."""
    store, handles = open_folder(str(folder)), list[StateHandle]()
    for subtask in range(of):
        first, last = group_span(subtask, of, GROUPS)
        operator = config.open()
        assert not isinstance(operator, MultiInputOperator)
        for batch in batches:
            groups = pl.Series(key_groups(batch, config.keys, GROUPS))
            if (own := batch.filter(groups.is_between(first, last))).height:
                operator.on_batch(own, Collected())
        if watermark is not None:
            operator.on_watermark(watermark, Collected())
        for state in operator.snapshot():

            def write(data: bytes, subtask: int = subtask) -> str:
                path = f"state/1-1-{config.node}-{subtask}-{unique_part()}.parquet"
                store.write(path, data)
                return path

            files, columns = write_whole(state, GROUPS, write=write)
            handles.append(
                StateHandle(
                    node=config.node,
                    state=state.name,
                    kind=state.kind,
                    keys=state.keys,
                    subtask=subtask,
                    first_group=first,
                    last_group=last,
                    columns=columns,
                    files=files,
                )
            )
        operator.close()
    return handles


def cut(
    folder: Path,
    *batches: pl.DataFrame,
    epoch: int = 5,
    of: int = 2,
    steps: Sequence[AggregateConfig] = (TOTALS, HOURLY),
) -> Manifest:
    """A savepoint's manifest, with the state of the steps in `folder`."""
    return Manifest(
        kind="savepoint",
        job="0123456789ab",
        pipeline="tills",
        epoch=epoch,
        attempt=1,
        created_at_ms=1_769_850_000_123,
        version="1.0",
        plan_hash="plan",
        max_parallelism=GROUPS,
        parallelism={step.node: of for step in steps},
        nodes={"sales": "source kafka", **{step.node: "aggregate" for step in steps}, "out": "sink print"},
        states=tuple(handle for step in steps for handle in handles_of(folder, step, batches, of=of)),
        sources={"sales": SourceState((SplitState("sales", 0, 40 * epoch, 1_000), SplitState("sales", 1, 7)))},
        splits={},
        definitions={step.node: step.definition() for step in steps},
    )


def savepoint(folder: Path, *batches: pl.DataFrame, epoch: int = 5, of: int = 2) -> str:
    """Writes a savepoint of the two steps; returns its path."""
    return write_savepoint(cut(folder, *batches, epoch=epoch, of=of), str(folder))


def job_folder(folder: Path, *batches: pl.DataFrame, epoch: int = 5) -> str:
    """Writes the folder of a job with one checkpoint of the two steps; returns its path."""
    journal = JournalStore(open_folder(str(folder)), "", "writer")
    journal.append(AttemptRecord(attempt=1, parallelism=2, plan_hash="plan", at_ms=0))
    manifest = cut(folder, *batches, epoch=epoch).model_copy(update={"kind": "checkpoint"})
    journal.append(CheckpointRecord(manifest=manifest, at_ms=manifest.created_at_ms))
    return str(folder)


def without_definitions(manifest: Manifest) -> Manifest:
    """The manifest as an earlier version wrote it."""
    return manifest.model_copy(update={"definitions": {}})


def renamed(config: AggregateConfig, **aggregates: str) -> AggregateConfig:
    """The same step with other aggregates."""
    return replace(config, aggregates=tuple(aggregates.items()))
