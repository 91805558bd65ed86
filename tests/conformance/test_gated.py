"""The gated sources that flows are tested with: sources like others where the gate is open, and held rows behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.registry import connector
from headrace.connect.source import Polled, Reader, SourceContext
from headrace.core.types import schema_of
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from support.clusters.gates import Gates
from support.flows.cuts import Cut
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until
from support.third_party_site import importable, third_party_path

PARTITIONS, ROWS = 3, 30


@pytest.fixture(autouse=True)
def installed(tmp_path: Path) -> Iterator[None]:
    """The package is on the path."""
    with importable(third_party_path(tmp_path / "site")):
        yield


@pytest.fixture(params=["generator", "files"])
def gates(request: pytest.FixtureRequest, tmp_path: Path) -> Gates:
    """Before a source of 30 rows in three partitions."""
    if request.param == "generator":
        source: dict[str, Any] = {"rows": ROWS, "partitions": PARTITIONS, "columns": {"id": {"sequence": {"start": 0}}}}
    else:
        for partition in range(PARTITIONS):
            rows = [json.dumps({"id": at * PARTITIONS + partition}) for at in range(ROWS // PARTITIONS)]
            (tmp_path / f"rows-{partition}.jsonl").write_text("\n".join(rows) + "\n")
        source = {"path": str(tmp_path / "rows-*.jsonl"), "partitions": PARTITIONS}
    return Gates({"sources": {"rows": {request.param: source}}}, tmp_path / "gates")


@pytest.fixture
def source(gates: Gates) -> SourceUnderTest:
    """The gated source; its gate is open."""
    gates.open(gates.ends)
    ((kind, fields),) = gates.document["sources"]["rows"].items()
    config_type = connector(kind).source
    assert config_type is not None
    context = SourceContext("p", "rows", schema_of({"id": "int64 not null"}), format="json", poll_rows_max=4)
    return SourceUnderTest(config_type.model_validate(fields), context, splits=PARTITIONS, rows=ROWS)


class TestGatedSource(SourceConformance):
    """Open gates change nothing."""


def opened_reader(source: SourceUnderTest) -> Reader:
    """Of all splits."""
    reader = source.config.open_reader(source.context)
    reader.assign(source.discover())
    return reader


def polled(reader: Reader, rows: int) -> list[Polled]:
    """Polls that gave so many rows, and one more, which gives none."""
    polls: list[Polled] = []
    while sum(len(each.batch) for each in polls if each.batch is not None) < rows:
        polls.append(reader.poll(10))
    polls.append(reader.poll(10))
    assert polls[-1].batch is None
    return polls


def test_rows_come_as_far_as_they_are_released(gates: Gates, source: SourceUnderTest) -> None:
    cut: Cut = {"rows": {"0": 4, "1": 0, "2": 10}}
    gates.open(cut)
    reader = opened_reader(source)
    first = polled(reader, 14)
    assert {split.partition for each in first for split in each.finished} == {2}
    gates.open(gates.ends)
    rest = polled(reader, 16)
    assert {split.partition for each in rest for split in each.finished} == {0, 1}
    reader.close()


def test_a_reader_stands_at_a_closed_gate_until_it_is_opened(gates: Gates, source: SourceUnderTest) -> None:
    gates.open({"rows": dict.fromkeys("012", 5)}, closed=True)
    reader = opened_reader(source)
    polls: list[Polled] = []
    all_read = threading.Event()

    def read() -> None:
        while sum(len(each.batch) for each in polls if each.batch is not None) < ROWS:
            polls.append(reader.poll(10))
        all_read.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    wait_until(gates.is_held, "the reader stands at the gate")
    assert sum(len(each.batch) for each in polls if each.batch is not None) == 15
    gates.open(gates.ends)
    assert all_read.wait(WAIT_SECONDS)
    thread.join()
    reader.close()
