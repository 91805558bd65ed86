"""A savepoint that an earlier version wrote, in golden/savepoints: a job continues from it, to the bit.

Half of a log is in the savepoint, the other half follows; both halves' rows are those of a run over all of it. To write
one, where a version of state begins: `PYTHONPATH=tests python -m flows.test_saved_earlier NAME`.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.flows.engines import Stretch, replayed
from support.kafka.broker import consume_all, create_topic, produce, running_broker, unique_topic
from support.processes.running import headrace
from support.spark.local_exchange import LocalExchange

SAVEPOINTS = Path(__file__).parent / "golden" / "savepoints"
TOPIC = "saved-earlier"
PARTITIONS, ROWS = 3, 600
AGGREGATES = {
    "n": "count(*)",
    "sum_x": "sum(x)",
    "mean_x": "avg(x)",
    "dev_x": "stddev(x)",
    "least_s": "min(s)",
    "most_x": "max(x)",
    "kinds": "count(distinct s)",
    "distinct_sum": "sum(distinct i)",
    "few": "sum(i) filter (where i > 2)",
    "first_s": "first(s)",
    "last_x": "last(x)",
}
KEYED = {"from": "rows", "key_by": ["key"], "aggregate": AGGREGATES}
STEPS: dict[str, dict[str, Any]] = {
    "tumbling": KEYED | {"window": {"tumbling": "10m"}},
    "sliding": KEYED | {"window": {"sliding": "30m", "every": "10m"}},
    "cumulating": KEYED | {"window": {"cumulate": "1h", "every": "20m"}},
    "days": KEYED | {"window": {"tumbling": "1d", "timezone": "Europe/Berlin"}},
    "corrected": KEYED | {"window": {"tumbling": "10m"}, "allowed_lateness": "20m"},
    "running": KEYED,
    "overall": {"from": "rows", "aggregate": AGGREGATES},
    "hourly": {
        "from": "tumbling",
        "key_by": ["key"],
        "window": {"tumbling": "1h"},
        "aggregate": {"n": "sum(n)", "most": "max(most_x)"},
    },
}
Rows = dict[str, list[dict[str, Any]]]
"""By step."""
UPDATING = {"corrected": ("key", "window_start", "window_end"), "running": ("key",), "overall": ()}


WAYS = ("rescaled", "as it was", "hashed anew", "on Spark")
"""How a version's savepoint is continued from."""
OPTIONS = {"rescaled": ("--parallelism", "3"), "as it was": (), "hashed anew": ("--max-parallelism", "7")}


@dataclass(frozen=True)
class Log:
    """The log in a topic: rows of its first half, and of all of it, by step."""

    broker: EmbeddedBroker
    first: Rows
    straight: Rows


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    folder = tmp_path_factory.mktemp("saved")
    with running_broker(folder / "kafka") as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        send(broker, range(ROWS // 2))
        first = run(broker, folder / "first", "--savepoint", "saved")
        send(broker, range(ROWS // 2, ROWS))
        yield Log(broker, first, run(broker, folder / "straight"))


def versions() -> list[Path]:
    """Each lies in a folder of its own."""
    return sorted(path for path in SAVEPOINTS.iterdir() if path.is_dir())


@pytest.mark.parametrize("version", versions(), ids=lambda path: path.name)
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way == "rescaled" else pytest.mark.full) for way in WAYS]
)
def test_a_job_continues_from_a_savepoint_of_an_earlier_version(
    log: Log, tmp_path: Path, version: Path, way: str
) -> None:
    folder = tmp_path / unique_topic(version.name)
    if way == "on Spark":
        rest = replayed_in(log.broker, folder, version)
    else:
        rest = run(log.broker, folder, "--from-savepoint", str(version), *OPTIONS[way])
    for name in [*STEPS, "late"]:
        both = [*log.first[name], *rest[name]]
        assert settled(name, both) == settled(name, log.straight[name]), name


def send(broker: EmbeddedBroker, numbers: range) -> None:
    """The same rows each time: disorder, late rows, NULLs, values that differ in the last bit, several keys."""
    for partition in range(PARTITIONS):
        own = [number for number in numbers if number % PARTITIONS == partition]
        produce(broker, TOPIC, [json.dumps(row_of(number)) for number in own], partition=partition)


def row_of(number: int) -> dict[str, Any]:
    """The row with this number in the log."""
    drawn = random.Random(number)
    minute = number * 2 - drawn.choice([0, 0, 0, 1, 7, 90])
    return {
        "key": drawn.choice(["hot", "hot", "a", "ä", None]),
        "x": drawn.choice([None, -0.0, 0.1, 1e16, -1e16, drawn.uniform(-9, 9)]),
        "i": drawn.choice([None, drawn.randrange(-9, 9)]),
        "s": drawn.choice([None, "", "x", "y"]),
        "ts": 1_709_250_000_000 + minute * 60_000,
    }


def pipeline(bootstrap: str, stem: str) -> dict[str, Any]:
    """Every step with state, each with a sink of its own."""
    kafka = {"brokers": bootstrap, "topic": TOPIC, "start": "earliest", "stop": "latest"}
    sinks: dict[str, Any] = {"late": {"from": "tumbling.late", "files": {"path": "late"}, "format": "json"}}
    for name in STEPS:
        place: dict[str, Any] = {"files": {"path": name}}
        if name in UPDATING:
            place = {"kafka": {"brokers": bootstrap, "topic": f"{stem}-{name}", "updates": "as_rows"}}
        sinks[f"to_{name}"] = {"from": name, **place, "format": "json"}
    return {
        "name": "saved-earlier",
        "parallelism": 2,
        "sources": {
            "rows": {
                "kafka": kafka,
                "format": "json",
                "schema": {"key": "string", "x": "float64", "i": "int64", "s": "string", "ts": "timestamp"},
                "time": {"column": "ts", "out_of_orderness": "5m"},
            }
        },
        "steps": STEPS,
        "sinks": sinks,
    }


def run(broker: EmbeddedBroker, folder: Path, *options: str) -> Rows:
    """Runs the pipeline over what the topic has now, in a folder of its own. Returns the rows by step."""
    made_ready(broker, folder)
    ended = headrace(["run", "p.json", *options], folder)
    assert ended.code == 0, ended.err
    return written(broker, folder)


def replayed_in(broker: EmbeddedBroker, folder: Path, begin: Path) -> Rows:
    """The same by the Spark engine, from a savepoint on."""
    document = made_ready(broker, folder)
    replayed(Stretch(document, 2, str(begin), closes=True), LocalExchange(5), folder)
    return written(broker, folder)


def made_ready(broker: EmbeddedBroker, folder: Path) -> dict[str, Any]:
    """Makes a folder with the pipeline, and the topics of its sinks."""
    folder.mkdir()
    document = pipeline(broker.bootstrap, folder.name)
    for sink in document["sinks"].values():
        if "files" in sink:
            sink["files"]["path"] = str(folder / sink["files"]["path"])
    (folder / "p.json").write_text(json.dumps(document))
    for name in UPDATING:
        create_topic(broker, f"{folder.name}-{name}")
    return document


def written(broker: EmbeddedBroker, folder: Path) -> Rows:
    """The rows of a run by step."""
    rows = {
        name: [json.loads(each.value or b"") for each in consume_all(broker, f"{folder.name}-{name}")]
        for name in UPDATING
    }
    for name in [*STEPS, "late"]:
        files = sorted((folder / name).rglob("*.json*")) if name not in UPDATING else []
        rows.setdefault(name, [json.loads(line) for file in files for line in file.read_text().splitlines()])
    return rows


def settled(name: str, rows: list[dict[str, Any]]) -> list[str]:
    """The lines of the rows, sorted; of updating ones the last of each key."""
    if (key := UPDATING.get(name)) is not None:
        rows = list({json.dumps([row[column] for column in key]): row for row in rows}.values())
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def main(version: str) -> None:
    """Writes the savepoint of this version."""
    with TemporaryDirectory() as scratch, running_broker(Path(scratch) / "kafka") as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        send(broker, range(ROWS // 2))
        run(broker, Path(scratch) / "first", "--savepoint", str(Path(scratch) / "saved"))
        (saved,) = (path.parent for path in (Path(scratch) / "saved").rglob("manifest.json"))
        shutil.copytree(saved, SAVEPOINTS / version)


if __name__ == "__main__":
    main(sys.argv[1])
