"""`headrace state`: what is inside a savepoint on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import Result

from headrace.checkpoint.manifest import FilePart, Manifest, StateHandle
from headrace.checkpoint.savepoints.savepoint import write_savepoint
from headrace.core.source_state import SourceState, SplitState
from headrace.state.parquet import checksum, write_chunks
from headrace.state.snapshot import Chunk
from support.processes import commands

BIG = 2**100
FRAMES = [
    pl.DataFrame({"origin": ["JFK", "LGA"], "count": pl.Series([3, BIG], dtype=pl.Int128)}),
    pl.DataFrame({"origin": ["EWR"], "count": pl.Series([None], dtype=pl.Int128), "extra": [True]}),
]


def handle(folder: Path, node: str, state: str, subtask: int, frames: list[pl.DataFrame], kind: str) -> StateHandle:
    (file,) = write_chunks(Chunk(number, frame) for number, frame in enumerate(frames))
    path = f"state/1-5-{node}-{state}-{subtask}.parquet"
    (folder / "state").mkdir(exist_ok=True)
    (folder / path).write_bytes(file.data)
    groups = tuple(range(len(file.rows)))
    part = FilePart(
        path=path, row_groups=groups, rows=sum(file.rows), bytes=len(file.data), checksum=checksum(file.data)
    )
    return StateHandle(
        node=node,
        state=state,
        kind=kind,
        keys=("origin",),
        subtask=subtask,
        first_group=0,
        last_group=7,
        columns=file.columns,
        files=(part,),
    )


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    folder = tmp_path / "savepoint-x"
    folder.mkdir()
    manifest = Manifest(
        kind="savepoint",
        job="0123456789ab",
        pipeline="delays",
        epoch=5,
        attempt=1,
        created_at_ms=1_769_850_000_123,
        version="0.1.0",
        plan_hash="h",
        max_parallelism=8,
        parallelism={"hourly": 2, "flights": 1},
        nodes={"hourly": "aggregate", "flights": "source"},
        states=(
            handle(folder, "hourly", "partials", 0, FRAMES[:1], "keyed"),
            handle(folder, "hourly", "partials", 1, FRAMES[1:], "keyed"),
            handle(folder, "hourly", "rates", 0, [pl.DataFrame({"r": [1.5]})], "broadcast"),
            handle(folder, "hourly", "rates", 1, [pl.DataFrame({"r": [1.5]})], "broadcast"),
        ),
        sources={"flights": SourceState((SplitState("t", 0, 1_200), SplitState("t", 1, 7, finished=True)))},
        splits={},
        drained=True,
    )
    write_savepoint(manifest, str(folder))
    return folder


def headrace(*arguments: str, code: int = 0) -> Result:
    return commands.headrace("state", *arguments, code=code)


def document(*arguments: str) -> Any:
    return json.loads(headrace(*arguments, "--json").stdout)


def test_list_shows_states_and_positions(savepoint: Path) -> None:
    lines = headrace("list", str(savepoint)).stdout.splitlines()
    assert lines[0] == "savepoint 5 of delays (job 0123456789ab) drained"
    table = [line.split() for line in lines[3:]]
    assert table[1][:5] == ["hourly", "partials", "keyed", "origin", "3"]
    assert table[2][:5] == ["hourly", "rates", "broadcast", "origin", "1"]
    assert table[4:] == [["flights", "t", "0", "1,200"], ["flights", "t", "1", "7", "(end)"]]
    found = document("list", str(savepoint))
    assert [(each["node"], each["state"], each["rows"]) for each in found["states"]] == [
        ("hourly", "partials", 3),
        ("hourly", "rates", 1),
    ]
    assert found["states"][0]["columns"] == {"origin": "String", "count": "Int128", "extra": "Boolean"}
    assert found["sources"]["flights"]["splits"][0]["position"] == 1_200
    assert (found["kind"], found["epoch"], found["job_id"], found["drained"]) == ("savepoint", 5, "0123456789ab", True)


def test_read_shows_rows(savepoint: Path) -> None:
    head, *rows = headrace("read", str(savepoint), "--state", "partials").stdout.splitlines()
    assert head.split() == ["origin", "count", "extra"]
    assert [row.split() for row in rows] == [["JFK", "3", "null"], ["LGA", str(BIG), "null"], ["EWR", "null", "true"]]
    few = headrace("read", str(savepoint), "--state", "partials", "-n", "1")
    assert len(few.stdout.splitlines()) == 2
    assert "1 of 3 rows" in few.stderr
    found = document("read", str(savepoint), "--state", "partials", "-n", "2")
    assert (found["rows_total"], found["rows"][1]) == (3, {"origin": "LGA", "count": BIG, "extra": None})


def test_read_writes_parquet(savepoint: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    headrace("read", str(savepoint), "--node", "hourly", "--state", "partials", "--to", str(target))
    written = pl.read_parquet(target)
    assert written["origin"].to_list() == ["JFK", "LGA", "EWR"]
    assert written.schema["count"] == pl.Decimal(38, 0)
    gone = headrace("read", str(savepoint), "--state", "rates", "--to", str(tmp_path / "no" / "out.parquet"), code=2)
    assert "cannot be written" in gone.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "it holds 2 states\n  name one: --node hourly --state partials, --node hourly --state rates"),
        (["--node", "houry"], "there is no node 'houry'\n  did you mean 'hourly'?"),
        (["--state", "x"], "there is no state 'x'\n  it has: --node hourly"),
    ],
)
def test_which_state_is_meant(savepoint: Path, options: list[str], message: str) -> None:
    assert message in headrace("read", str(savepoint), *options, code=2).stderr


def test_a_damaged_file_is_named(savepoint: Path) -> None:
    file = savepoint / "state" / "1-5-hourly-partials-1.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    assert f"{file} has" in headrace("read", str(savepoint), "--state", "partials", code=1).stderr
    assert "there is no savepoint" in headrace("list", str(savepoint / "nothing"), code=2).stderr
