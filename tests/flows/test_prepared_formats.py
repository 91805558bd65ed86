"""What a format learned before the first row, through engines, crashes and savepoints: its registry is asked once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.core.settings import Home
from headrace.execution.origin import OriginWish
from headrace.spark.launch.replay import ReplayOptions, prepare
from headrace.spec.reading.read import pipeline_from_dict
from support.clusters.session import Cluster, kill
from support.processes.running import wait_until
from support.spark.local_exchange import LocalExchange

BEYOND = 2**40
"""A position behind every row of a file."""


@pytest.fixture
def registry(tmp_path: Path, site: list[Path]) -> Path:
    folder = tmp_path / "registry"
    folder.mkdir()
    (folder / "mark").write_text(">")
    (tmp_path / "in-1").write_text(">a\n>b\n>c\n")
    (tmp_path / "gate").mkdir()
    return folder


def document(folder: Path, connector: str = "files", **fields: str) -> dict[str, Any]:
    form = {"asking": {"registry": str(folder / "registry")}}
    source = {connector: {"path": str(folder / "in-*"), **fields}, "format": form, "schema": {"text": "string"}}
    return {
        "name": "asks",
        "checkpoint": {"interval": "200ms", "storage": str(folder / "checkpoints")},
        "restart": {"strategy": "fixed-delay", "delay": "0s", "attempts": 5},
        "sources": {"s": source},
        "sinks": {"out": {"from": "s", "files": {"path": str(folder / "out")}, "format": form}},
    }


def asked(folder: Path) -> int:
    return len((folder / "registry" / "asked").read_text().splitlines())


def written(folder: Path) -> list[str]:
    return sorted(line for path in (folder / "out").glob("part-*") for line in path.read_text().splitlines())


def forget(folder: Path) -> None:
    """The registry is away for good."""
    (folder / "registry" / "mark").unlink()


def test_a_slot_is_killed_and_the_job_goes_on_from_a_savepoint_without_the_registry(
    cluster: Cluster, registry: Path, tmp_path: Path
) -> None:
    file = tmp_path / "asks.json"
    file.write_text(json.dumps(document(tmp_path, "gated_files", gate=str(tmp_path / "gate"))))
    job = cluster.headrace("submit", str(file), "--json").json["job_id"]
    cluster.wait_state(job, "RUNNING")
    assert asked(tmp_path) == 2

    forget(tmp_path)
    kill(*cluster.wait_busy_slots(job))
    wait_until(lambda: cluster.client.status(job).attempt == 2, "another attempt")
    cluster.wait_state(job, "RUNNING")
    stopped = cluster.headrace("stop", job, "--savepoint", str(tmp_path / "saved"), "--json")
    assert stopped.code == 0, stopped.err

    (tmp_path / "gate" / "opening").write_text(json.dumps({"number": 1, "until": {"0": BEYOND}}))
    begun = ("--from-savepoint", stopped.json["path"], "--parallelism", "2")
    again = cluster.headrace("submit", str(file), *begun, "--wait", "--json")
    assert again.code == 0, again.err
    assert written(tmp_path) == [">a", ">b", ">c"]
    assert asked(tmp_path) == 2


def test_a_replay_keeps_it_in_its_savepoint(registry: Path, tmp_path: Path) -> None:
    pipeline = pipeline_from_dict(document(tmp_path))
    home = Home(tmp_path / "home")
    options = ReplayOptions(savepoint=str(tmp_path / "saved"))
    first = prepare(pipeline, options, home).replay(LocalExchange(1), lambda _: None).run()
    assert written(tmp_path) == [">a", ">b", ">c"]
    assert asked(tmp_path) == 2

    forget(tmp_path)
    (tmp_path / "in-2").write_text(">d\n")
    assert first.savepoint is not None
    again = ReplayOptions(origin=OriginWish(first.savepoint, max_parallelism=128))
    prepare(pipeline, again, home).replay(LocalExchange(2), lambda _: None).run()
    assert written(tmp_path) == [">a", ">b", ">c", ">d"]
    assert asked(tmp_path) == 2


def test_a_source_waits_for_a_schema_while_checkpoints_complete_and_slots_die(
    cluster: Cluster, registry: Path, tmp_path: Path
) -> None:
    (tmp_path / "in-1").write_text(">a\n>?b\n>c\n")
    file = tmp_path / "asks.json"
    file.write_text(json.dumps(document(tmp_path)))
    job = cluster.headrace("submit", str(file), "--json").json["job_id"]

    def waits() -> list[tuple[str, str]]:
        return [(each.node, each.on) for each in cluster.client.status(job).waiting]

    wait_until(lambda: waits() == [("s", "the registry, schema 7")], "it waits")
    assert "waiting: s since" in cluster.headrace("status", job).out
    before = cluster.client.status(job).checkpoint
    wait_until(lambda: cluster.client.status(job).checkpoint not in (None, before), "a checkpoint completes")
    kill(*cluster.wait_busy_slots(job))
    wait_until(lambda: cluster.client.status(job).attempt == 2 and bool(waits()), "another attempt waits")

    (registry / "known").touch()
    cluster.wait_state(job, "FINISHED")
    assert written(tmp_path) == [">?b", ">a", ">c"]
    assert cluster.client.status(job).waiting == ()
