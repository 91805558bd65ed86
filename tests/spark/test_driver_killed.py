"""The driver of a replay is killed at a step of its commit: the same command, given again, goes on where it has to, and
at the end every row is there once. The full tier kills it at all steps, one after the other.

The command is a process of its own; `stopping_kafka` and `stopping_files` are where it stops.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.checkpoint.savepoints.savepoint import find
from headrace_dev.broker import EmbeddedBroker
from support.clusters.stopping_points import StoppingPoints
from support.flows.site import Flow
from support.kafka.broker import consume_all, create_topic, unique_topic
from support.processes.running import WAIT_SECONDS, Running, finish, start
from support.rotation import of_this_commit
from support.spark.settings import SPARK_SECONDS
from support.third_party_site import third_party_path

FLOW = Flow("sliding")
SHARES = 2
COMPUTING = "computing"
STEPS = {
    # where it is killed: the kinds of records that one attempt leaves in the journal, shares that are visible
    COMPUTING: (["attempt"], 0),
    "before-share-0": (["attempt", "checkpoint"], 0),
    "before-share-1": (["attempt", "checkpoint"], 1),
    "after-share-1": (["attempt", "checkpoint"], 2),
    "before-manifest": (["attempt", "checkpoint", "committed"], 2),
    "after-manifest": (["attempt", "checkpoint", "committed"], 2),
}


class Command:
    """`headrace replay` of a flow into Kafka, with a savepoint, on one core: shares come one after the other."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, points: StoppingPoints) -> None:
        self._folder, self._broker = folder, broker
        self.points = points
        self.topic = create_topic(broker, unique_topic("replayed"), partitions=2)
        self._file = folder / "pipeline.yaml"
        self._file.write_text(json.dumps(self._document()))

    def _document(self) -> dict[str, Any]:
        document = FLOW.load({"OUT": "unused"}).to_dict()
        source = document["sources"]["orders"]
        columns = {name: str(dtype).removesuffix(" not null") for name, dtype in source["schema"].items()}
        document["steps"]["held"] = {
            "from": "orders",
            "map": {"function": "stopping_files:computing", "schema": columns},
        }
        windowed = next(step for step in document["steps"].values() if "window" in step)
        windowed["from"] = "held"
        sink = {
            "brokers": self._broker.bootstrap,
            "topic": self.topic,
            "delivery": "exactly-once",
            "points": str(self.points.folder),
        }
        results = document["sinks"]["recent_orders"]["from"]
        document["sinks"] = {"recent_orders": {"from": results, "stopping_kafka": sink, "format": "json"}}
        document["parallelism"] = SHARES
        return document

    def start(self) -> Running:
        """Gives the command."""
        arguments = ["replay", str(self._file), "--master", "local[1]", "--parallelism", str(SHARES), "--json"]
        return start([*arguments, "--savepoint", f"stopping://{self._folder}/savepoints", "--final"], self._folder)

    def killed_at(self, point: str) -> None:
        """The command's driver is killed when something of it stands there."""
        process = self.start()
        try:
            with self.points.held_at(point, SPARK_SECONDS):
                started = psutil.Process(process.pid).children(recursive=True)
                process.send_signal(signal.SIGKILL)
                # whoever is held there goes too: its driver is gone
                _, left = psutil.wait_procs(started, WAIT_SECONDS)
                assert left == []
        finally:
            process.kill()
            process.communicate()

    def records(self) -> list[str]:
        """Kinds of the journal's records, in order."""
        return [json.loads(path.read_text())["kind"] for path in sorted(self._storage.glob("*/journal/*.json"))]

    @property
    def _storage(self) -> Path:
        return self._folder / "home" / "checkpoints"

    def kept(self) -> list[str]:
        """Folders in checkpoint storage that have files."""
        return sorted({path.parent.name for path in self._storage.rglob("*") if path.is_file()})

    def rows(self) -> list[str]:
        """What readers of the topic see, as lines of the golden."""
        found = [json.loads(record.value or b"null") for record in consume_all(self._broker, self.topic)]
        return sorted(json.dumps(["recent_orders", row], sort_keys=True, ensure_ascii=False) for row in found)


@pytest.fixture
def command(tmp_path: Path, broker: EmbeddedBroker) -> Iterator[Command]:
    points = StoppingPoints(tmp_path / "points")
    site = third_party_path(tmp_path / "site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(map(str, site)), prepend=":")
        patch.setenv("HEADRACE_TEST_POINTS", str(points.folder))
        patch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
        yield Command(tmp_path, broker, points)


def golden() -> list[str]:
    """The flow's rows in that sink."""
    return [line for line in FLOW.golden.read_text().splitlines() if json.loads(line)[0] == "recent_orders"]


def rows_after_kill(command: Command, point: str, *, attempts_before: int = 0) -> list[str]:
    """Kills the driver at the point and checks what it leaves. Returns the rows that readers of the topic see then."""
    command.killed_at(point)
    records, shares = STEPS[point]
    assert command.records() == ["attempt"] * attempts_before + records, point
    expected, visible = golden(), command.rows()
    assert set(visible) <= set(expected)
    assert (len(visible) == 0, visible == expected) == (shares == 0, shares == SHARES), point
    return visible


@pytest.mark.full  # `session/test_follow` kills one that follows, `sim/drivers` both kinds
@pytest.mark.broker
def test_a_driver_that_is_killed(command: Command, tmp_path: Path) -> None:
    rows_after_kill(command, of_this_commit(list(STEPS)))
    check_taken_up(command, tmp_path)


@pytest.mark.full
@pytest.mark.broker
def test_a_driver_that_is_killed_at_every_step(command: Command, tmp_path: Path) -> None:
    seen = 0
    for point in STEPS:
        # an attempt that dies before its checkpoint is replaced; one that dies later is resumed
        visible = rows_after_kill(command, point, attempts_before=0 if point == COMPUTING else 1)
        assert len(visible) >= seen
        seen = len(visible)
    check_taken_up(command, tmp_path)


def check_taken_up(command: Command, tmp_path: Path) -> None:
    """Runs the command once more: all rows are there, each once, and a savepoint; no other file is left."""
    done = finish(command.start(), SPARK_SECONDS)
    assert done.code == 0, done.err
    assert command.rows() == golden()
    assert command.records()[-1] == "finished"
    assert command.kept() == ["journal"]
    savepoint = Path(done.json["savepoint"].removeprefix("stopping://"))
    assert list((tmp_path / "savepoints").iterdir()) == [savepoint]
    manifest = find(str(savepoint)).manifest
    named = {Path(part.path) for handle in manifest.states for part in handle.files}
    assert {path for path in savepoint.rglob("*") if path.is_file()} == {*named, savepoint / "manifest.json"}


@pytest.mark.full
@pytest.mark.broker
def test_ctrl_c_cancels_and_says_what_comes_next(command: Command) -> None:
    process = command.start()
    try:
        with command.points.held_at("computing", SPARK_SECONDS):
            process.send_signal(signal.SIGINT)
            done = finish(process, SPARK_SECONDS)
    finally:
        process.kill()
    assert done.code == 130, done.err
    assert done.err.splitlines()[-1].startswith("interrupted: the same command begins anew")
    assert "Traceback" not in done.err
    assert command.records() == ["attempt"]
    assert command.rows() == []
