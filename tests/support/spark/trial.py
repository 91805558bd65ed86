"""A replay with faults: at every level, a flow's rows pass functions that fail on order (`third_party/failing`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headrace.checkpoint.savepoints.savepoint import find
from headrace.connect import registry
from headrace.core.settings import Home
from headrace.spark.driver.exchange import RddExchange
from headrace.spark.launch.replay import ReplayOptions, prepare
from headrace.spec.reading.read import pipeline_from_dict
from support.flows.site import Flow
from support.third_party_site import third_party_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOW = Flow("two_stages")
SOURCE_ROWS = 3_000


@contextmanager
def faults_installed(folder: Path) -> Iterator[Sequence[str]]:
    """The third party's packages are on the path of this process and of those that it starts, and faults have a
    folder; gives the path's entries."""
    site = [str(path) for path in third_party_path(folder / "site")]
    (folder / "faults").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(site), prepend=":")
        patch.setenv("HEADRACE_TEST_FAULTS", str(folder / "faults"))
        for path in site:
            patch.syspath_prepend(path)
        registry._entries.cache_clear()
        yield site
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
        prepared = prepare(pipeline_from_dict(self._document()), options, Home(self.folder / "home"))
        outcome = prepared.replay(RddExchange(self.spark), lambda _: None).run()
        assert outcome.rows_in == SOURCE_ROWS
        assert outcome.savepoint is not None
        return outcome.savepoint

    def _document(self) -> dict[str, Any]:
        """The flow, and its source's rows as they are; every row passes `first`, `second` and `third` on its way."""
        document = FLOW.load({"OUT": str(self.folder / "out")}).to_dict()
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

    def shares(self) -> int:
        """Shares that there were to publish."""
        (job,) = (self.folder / "home" / "checkpoints").iterdir()
        return len(find(str(job)).manifest.committables)

    def taken(self) -> set[str]:
        """Places whose fault has happened."""
        return {path.stem for path in self.faults.glob("*.taken")}

    def visits(self, place: str) -> list[str]:
        """Who came there: `stage-partition process`, a line for each time."""
        return (self.faults / f"{place}.visits").read_text().splitlines()
