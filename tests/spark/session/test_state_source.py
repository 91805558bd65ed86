"""The data source `headrace_state`, and savepoints read by plain Spark: the rows are those that the state holds."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from headrace.checkpoint.inspection.stored_state import chosen_state
from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.savepoints.savepoint import find
from headrace.checkpoint.stores.opening import open_store
from headrace.core.batch import TS
from headrace.core.errors import ExternalError, UserError
from headrace.core.keygroups import key_groups
from headrace.core.types import schema_of
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.operator import Operator
from headrace.operators.window.definitions import Tumbling
from headrace.spark.state_source import KEY_GROUP, state_table, states
from support.oracles.collector import Collected
from support.storage.checkpoints import attempt, checkpoint, committed
from support.storage.kept import savepoint_with, write_states
from support.storage.states import rows_of

pytestmark = pytest.mark.turns(3, of="files")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUT = schema_of({"shop": "string", "amount": "int64", "price": "float64", "tags": "[string]"})
TOTALS = AggregateConfig(
    "totals", ("shop",), None, (("total", "sum(amount)"), ("mean", "avg(price)"), ("last_tags", "last(tags)")), INPUT,
    order="arrival",
)  # fmt: skip
HOURLY = AggregateConfig("hourly", ("shop",), Tumbling(3_600_000), (("n", "count(*)"), ("worst", "max(price)")), INPUT)


def fed(config: AggregateConfig, *shops: str) -> Operator:
    """An operator that has seen two rows of each shop."""
    operator = config.open()
    rows = [{"shop": shop, "amount": 10**17, "price": 0.25 * n, "tags": [shop, "x"]} for n, shop in enumerate(shops)]
    frame = pl.DataFrame([*rows, *rows], schema=INPUT.polars())
    operator.on_batch(frame.with_columns(pl.int_range(pl.len()).mul(3_600_000).alias(TS)), Collected())
    return operator


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint of two nodes, one with two subtasks."""
    folder = tmp_path_factory.mktemp("kept") / "savepoint"
    savepoint_with(folder, {"totals": [fed(TOTALS, "a", "b"), fed(TOTALS, "c")], "hourly": [fed(HOURLY, "a", "é")]})
    return str(folder)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from headrace.spark.state_source import register_state

    register_state(spark)
    return spark


def test_rows_are_those_of_the_state(session: SparkSession, savepoint: str) -> None:
    read = session.read.format("headrace_state").option("path", savepoint).option("node", "totals")
    frame = read.option("state", "groups").load()
    found = frame.collect()
    kept = rows_of(chosen_state(find(savepoint).manifest, "totals", "groups"))
    assert dict(frame.dtypes)[KEY_GROUP] == "int"
    whole = next(name for name, dtype in kept.schema.items() if dtype == pl.Int128)
    assert dict(frame.dtypes)[whole] == "decimal(38,0)"
    assert sorted(row[whole] for row in found) == [Decimal(2 * 10**17)] * 3
    expected = kept.with_columns(pl.Series(KEY_GROUP, key_groups(kept, ["shop"], 128)), pl.col(whole).cast(pl.String))
    got = [{**row.asDict(), whole: str(row[whole])} for row in found]
    assert sorted(got, key=lambda row: row["shop"]) == expected.sort("shop").to_dicts()
    assert frame.rdd.getNumPartitions() == 2, "one for each file"


def test_a_plain_reader_takes_the_files(session: SparkSession, savepoint: str) -> None:
    kept = {(each.node, each.state): each for each in states(savepoint)}
    assert set(kept) == {("totals", "groups"), ("totals", "time"), ("hourly", "windows"), ("hourly", "time")}
    for each in kept.values():
        paths = [part.path for handle in each.handles for part in handle.files]
        frame = session.read.option("mergeSchema", "true").parquet(*paths)
        assert sorted(frame.columns) == sorted(each.columns)
        assert frame.count() == each.rows
    windows = session.read.parquet(*(part.path for part in kept["hourly", "windows"].handles[0].files))
    assert {row["shop"] for row in windows.select("shop").collect()} == {"a", "é"}


def test_what_is_not_there_is_said_with_the_choice(session: SparkSession, savepoint: str) -> None:
    from pyspark.errors import AnalysisException

    read = session.read.format("headrace_state")
    with pytest.raises(AnalysisException, match=r'it holds 4 states(.|\n)*option\("node", "hourly"\)'):
        read.load(savepoint)
    with pytest.raises(AnalysisException, match="did you mean 'node'"):
        session.read.format("headrace_state").option("nodes", "totals").load(savepoint)
    with pytest.raises(UserError, match="there is no state 'panes' of node 'hourly'"):
        state_table(savepoint, "hourly", "panes")
    with pytest.raises(UserError, match="there is no savepoint or checkpoint"):
        states(f"{savepoint}/state/elsewhere")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder with checkpoints 1 and 2 of one node."""
    folder = tmp_path / "checkpoints" / "job"
    journal = JournalStore(open_store(str(folder)), "", "one")
    journal.append(attempt(1))
    for epoch, shops in ((1, "a"), (2, "ab")):
        made = checkpoint(epoch)
        handles = write_states(folder / f"e{epoch}", "hourly", [fed(HOURLY, *shops).snapshot()])
        parts = [
            handle.model_copy(
                update={"files": tuple(f.model_copy(update={"path": f"e{epoch}/{f.path}"}) for f in handle.files)}
            )
            for handle in handles
        ]
        journal.append(made.model_copy(update={"manifest": made.manifest.model_copy(update={"states": tuple(parts)})}))
        journal.append(committed(epoch))
    return folder


def test_a_running_job_is_read_at_one_checkpoint(session: SparkSession, job: Path) -> None:
    read = session.read.format("headrace_state").option("node", "hourly").option("state", "windows")
    newest = read.load(str(job))
    assert {row["shop"] for row in newest.collect()} == {"a", "b"}
    first = read.option("epoch", "1").load(str(job))
    assert {row["shop"] for row in first.collect()} == {"a"}
    assert {row["shop"] for row in read.load(find(str(job), 1).url).collect()} == {"a"}
    shutil.rmtree(job / "e1")  # as pruning does
    table = state_table(str(job), "hourly", "windows", 1)
    with pytest.raises(ExternalError, match="checkpoint 1 of flights is no longer retained"):
        list(table.batches(table.parts[0], ["shop"]))


def test_columns_of_some_files_only_are_null_in_others(tmp_path: Path) -> None:
    added = AggregateConfig("hourly", HOURLY.keys, HOURLY.window, (*HOURLY.aggregates, ("least", "min(amount)")), INPUT)
    savepoint_with(tmp_path / "s", {"hourly": [fed(HOURLY, "a"), fed(added, "b")]})
    table = state_table(str(tmp_path / "s"), "hourly", "windows")
    schema = table.schema()
    frames = [pl.from_arrow(batch) for part in table.parts for batch in table.batches(part, schema.names)]
    least = next(name for name in schema.names if name.startswith("__min."))
    by_shop = {row["shop"]: row[least] for frame in frames for row in frame.to_dicts()}  # type: ignore[union-attr]
    assert by_shop == {"a": None, "b": 10**17}
