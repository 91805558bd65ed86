"""Tasks that fail, executors that are killed, tasks that Spark tries twice: the results are those of a quiet run, and
nothing of a try that came to nothing is left.

Everything on executors of their own (`local-cluster`), with speculation on; `failing` has the faults.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headrace.checkpoint.savepoint import find
from headrace.connect import registry
from headrace.core.settings import Home
from headrace.spark.exchange import RddExchange
from headrace.spark.session import session
from headrace.spark.start import ReplayOptions, prepare
from headrace.spec.pipeline import Pipeline
from support.flow_site import Flow
from support.spark_home import end_jvm, own_spark_home
from support.third_party_site import third_party_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = Flow("two_stages")
CLUSTER = "local-cluster[2,1,1024]"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "1s",
}
SOURCE_ROWS = 3_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[SparkSession]:
    """Two executors of one core, which find the connectors of the third party."""
    site = [str(path) for path in third_party_path(folder / "site")]
    (folder / "faults").mkdir()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark leaves sockets to the garbage collector
        patch.setenv("SPARK_HOME", str(own_spark_home(folder / "spark")))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "local"))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", ":".join(site))
        patch.setenv("HEADRACE_TEST_FAULTS", str(folder / "faults"))
        for path in site:
            patch.syspath_prepend(path)
        registry._entries.cache_clear()
        with session("faults", CLUSTER, SPECULATION) as spark:
            yield spark
        end_jvm()
    registry._entries.cache_clear()


@dataclass
class Trial:
    """One replay of the flow, with places for faults at every level; `folder` is its own."""

    spark: SparkSession
    folder: Path
    faults: Path

    def order(self, **faults: str) -> None:
        """What is to happen where."""
        for path in self.faults.iterdir():
            path.unlink()
        for place, fault in faults.items():
            (self.faults / place).write_text(fault)

    def run(self) -> str:
        """Replays to the end of time, with a savepoint; gives its URL."""
        options = ReplayOptions(savepoint=str(self.folder / "savepoints"), final=True, parallelism=2)
        prepared = prepare(Pipeline.from_dict(self._document()), options, Home(self.folder / "home"))
        outcome = prepared.replay(RddExchange(self.spark), lambda _: None).run()
        assert outcome.rows_in == SOURCE_ROWS
        assert outcome.savepoint is not None
        return outcome.savepoint

    def _document(self) -> dict[str, Any]:
        """The flow, and its source's rows as they are; every row passes `first`, `second` and `third` on its way."""
        document = FLOW.load({"RATE": "1e9", "OUT": str(self.folder / "out")}).to_dict()
        steps = document["steps"]
        columns = document["sources"]["orders"]["schema"]
        clerks = {"shop": "string", "clerk": "int64", "window_start": "timestamp", "window_end": "timestamp"}
        clerks |= {"orders": "int64", "total": "int64"}
        shops = {"shop": "string", "window_start": "timestamp", "window_end": "timestamp"}
        shops |= {"orders": "int64", "best": "int64", "clerks": "int64"}
        for name, source, reader, schema in (
            ("first", "orders", "by_clerk", columns),
            ("second", "by_clerk", "by_shop", clerks),
            ("third", "by_shop", "all_shops", shops),
        ):
            nullable = {column: str(dtype).removesuffix(" not null") for column, dtype in schema.items()}
            steps[name] = {"from": source, "map": {"function": f"failing:{name}", "schema": nullable}}
            steps[reader]["from"] = name
        document["sinks"]["shops"]["from"] = "third"
        document["sinks"]["plain"] = {"from": "first", "files": {"path": str(self.folder / "out/plain")}}
        for sink in document["sinks"].values():
            sink["failing_files"] = sink.pop("files")
            sink["format"] = "json"
        document["batch"] = {"max_rows": 100}
        return document

    def check(self, savepoint: str) -> None:
        """Every row is there once, and nothing else is."""
        written = {sink: self._rows(sink) for sink in ("shops", "everything")}
        assert FLOW.canonical(written) == FLOW.golden.read_text().splitlines()
        assert not any(FLOW.repeated(written).values())
        assert sorted(row["id"] for row in self._rows("plain")) == list(range(1, SOURCE_ROWS + 1))
        assert not [path for path in (self.folder / "out").rglob("*.json") if not path.name.startswith("part-")]
        kept = [path for path in (self.folder / "home" / "checkpoints").rglob("*") if path.is_file()]
        assert {path.parent.name for path in kept} == {"journal"}
        manifest = find(savepoint).manifest
        named = {Path(part.path) for handle in manifest.states for part in handle.files}
        assert {path for path in Path(savepoint).rglob("*") if path.is_file()} == {
            *named,
            Path(savepoint) / "manifest.json",
        }

    def _rows(self, sink: str) -> list[dict[str, Any]]:
        files = sorted((self.folder / "out" / sink).glob("part-*"))
        return [row for file in files for row in pl.read_ndjson(file).to_dicts()]

    def taken(self) -> set[str]:
        """Places whose fault has happened."""
        return {path.stem for path in self.faults.glob("*.taken")}

    def visits(self, place: str) -> list[str]:
        """Processes that came there, each time."""
        return (self.faults / f"{place}.visits").read_text().split()


@pytest.fixture
def trial(cluster: SparkSession, folder: Path, tmp_path: Path) -> Trial:
    return Trial(cluster, tmp_path, folder / "faults")


def test_tasks_that_fail_or_whose_process_dies_are_tried_again(trial: Trial) -> None:
    faults = {"first": "raise", "second": "worker", "third": "raise", "middle": "worker", "end": "raise"}
    trial.order(**faults)
    savepoint = trial.run()
    assert trial.taken() == set(faults)
    trial.check(savepoint)


def test_an_executor_that_is_lost_takes_what_it_shuffled_with_it(trial: Trial) -> None:
    trial.order(third="executor", middle="executor")
    savepoint = trial.run()
    assert trial.taken() == {"third", "middle"}
    trial.check(savepoint)
