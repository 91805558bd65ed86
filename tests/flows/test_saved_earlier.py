"""A savepoint that an earlier version wrote, in golden/savepoints: a job continues from it, to the bit.

Half of a log is in the savepoint, the other half follows; both halves' rows are those of a run over all of it. To write
one, where a version of state begins: `PYTHONPATH=tests python -m flows.test_saved_earlier NAME`.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, running_broker
from support.processes.running import headrace

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
UPDATING = {"corrected": ("key", "window_start", "window_end"), "running": ("key",), "overall": ()}


def test_a_job_continues_from_a_savepoint_of_an_earlier_version(tmp_path: Path) -> None:
    """Versions lie in folders of their own; each continues at another parallelism than it was written with."""
    versions = sorted(path for path in SAVEPOINTS.iterdir() if path.is_dir())
    assert versions
    with running_broker(tmp_path / "kafka") as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        send(broker, range(ROWS // 2))
        first = run(broker, tmp_path / "first", "--savepoint", "saved")
        send(broker, range(ROWS // 2, ROWS))
        straight = run(broker, tmp_path / "straight")
        for version in versions:
            rest = run(broker, tmp_path / version.name, "--from-savepoint", str(version), "--parallelism", "3")
            for name in [*STEPS, "late"]:
                both = [*first[name], *rest[name]]
                assert settled(name, both) == settled(name, straight[name]), (version.name, name)


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


def run(broker: EmbeddedBroker, folder: Path, *options: str) -> dict[str, list[dict[str, Any]]]:
    """Runs the pipeline over what the topic has now, in a folder of its own. Returns the rows by step."""
    folder.mkdir()
    (folder / "p.json").write_text(json.dumps(pipeline(broker.bootstrap, folder.name)))
    for name in UPDATING:
        create_topic(broker, f"{folder.name}-{name}")
    ended = headrace(["run", "p.json", *options], folder)
    assert ended.code == 0, ended.err
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
