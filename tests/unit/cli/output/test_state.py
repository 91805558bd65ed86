"""`headrace state`: what is inside a savepoint on disk, and inside the checkpoint of a job."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import Result

from headrace.checkpoint.manifest import FilePart, Manifest, StateHandle
from headrace.checkpoint.savepoints.savepoint import write_savepoint
from headrace.client.discovery import connect
from headrace.client.state_models import StateQuery
from headrace.core.source_state import SourceState, SplitState
from headrace.state.parquet import checksum, write_chunks
from headrace.state.snapshot import Chunk
from support.control.scripted_cluster import TOKEN, ScriptedCluster, serving
from support.processes import commands
from support.repository import ROOT
from support.storage.cuts import job_folder, sales
from support.storage.cuts import savepoint as savepoint_of

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
    assert (
        f"{file} of state 'partials' of node 'hourly' is damaged: it ends before"
        in headrace("read", str(savepoint), "--state", "partials", code=1).stderr
    )
    assert "there is no savepoint" in headrace("list", str(savepoint / "nothing"), code=2).stderr


# ---- rows of a step's output -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tills(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two savepoints of one job."""
    root = tmp_path_factory.mktemp("tills")
    folders = [root / "before", root / "after"]
    for folder in folders:
        folder.mkdir()
    more = pl.DataFrame({"shop": ["north", "east"], "till": [0, 1], "price": [9.0, 1.0], "item": "x", "__ts": [0, 0]})
    return [savepoint_of(folders[0], sales(600)), savepoint_of(folders[1], sales(600), more, epoch=6)]


def test_a_key_and_a_condition(tills: list[str]) -> None:
    head, *rows = headrace(
        "read", tills[0], "--node", "totals", "--key", "shop=south", "--key", "till=7"
    ).stdout.splitlines()
    assert head.split() == ["shop", "till", "n", "total", "mean", "items"]
    assert [row.split()[:3] for row in rows] == [["south", "7", "8"]]
    found = document("read", tills[0], "--node", "hourly", "--where", "n > 30 and shop = 'north'", "-n", "1")
    assert (found["node"], found["state"], found["keys"]) == ("hourly", None, ["shop"])
    assert list(found["columns"]) == ["shop", "window_start", "window_end", "n", "best"]
    assert found["rows"][0]["window_end"].endswith(":00:00.000Z")
    assert found["rows_without_result"] == 0
    positions = document("read", tills[0], "--node", "sales", "--key", "topic=sales", "--key", "partition=0")
    assert positions["rows"][0]["position"] == 200


def test_rows_are_written_in_the_format_of_the_suffix(tills: list[str], tmp_path: Path) -> None:
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        target = tmp_path / name
        text = headrace("read", tills[0], "--node", "totals", "--where", "till < 2", "--to", str(target)).stdout
        assert text == f"4 rows of totals written to {target}\n"
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "shop,till,n,total,mean,items"
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == pl.read_parquet(tmp_path / "out.parquet").to_dicts()
    refused = headrace("read", tills[0], "--node", "totals", "--to", str(tmp_path / "out.xls"), code=2)
    assert ".xls names no format of rows\n  end its name in .parquet, .jsonl or .csv" in refused.stderr


def test_two_savepoints_are_compared(tills: list[str]) -> None:
    lines = headrace("diff", *tills, "--node", "totals", "-n", "2").stdout.splitlines()
    assert lines[0].startswith("- savepoint 5 of tills (job 0123456789ab)")
    assert lines[1].startswith("+ savepoint 6 of tills (job 0123456789ab)")
    assert lines[2].split() == ["NODE", "STATE", "ROWS", "ADDED", "REMOVED", "CHANGED", "COLUMNS"]
    groups = next(line.split() for line in lines if "groups" in line)
    assert groups[:6] == ["totals", "groups", "101", "1", "0", "1"]
    assert lines[-3].strip().startswith("+ {shop: east, till: 1, n: 1")
    assert [line.strip()[:31] for line in lines[-2:]] == [
        "- {shop: north, till: 0, n: 4, ",
        "+ {shop: north, till: 0, n: 5, ",
    ]
    found = document("diff", *tills)
    assert found["same"] is False
    totals = next(each for each in found["states"] if (each["node"], each["state"]) == ("totals", "groups"))
    assert (totals["added"], totals["removed"], totals["changed"], totals["rows"]) == (1, 0, 1, [])
    assert totals["columns"]["n"] == 1
    assert document("diff", tills[0], tills[0])["same"] is True


def test_the_commands_of_the_page(tills: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/state.md: each command as it stands."""
    (tmp_path / "saved").mkdir()
    for day, path in zip(("monday", "tuesday"), tills, strict=True):
        (tmp_path / "saved" / day).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "state.md").read_text()
    commands = re.findall(r"^\$ headrace state (.+)$", page, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["list", "read", "read", "read", "read", "diff"]
    for command in commands:
        assert headrace(*shlex.split(command)).stdout
    assert len((tmp_path / "totals.csv").read_text().splitlines()) == 5


# ---- a job -------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    cluster = ScriptedCluster()
    with serving(cluster) as url:
        monkeypatch.setenv("HEADRACE_COORDINATOR", url)
        yield cluster


def test_a_job_is_its_newest_checkpoint(cluster: ScriptedCluster, tmp_path: Path) -> None:
    job = cluster.add("tills")
    none = headrace("list", "tills", code=2)
    assert "job tills has no complete checkpoint yet\n  take one first: --fresh" in none.stderr
    (tmp_path / "job").mkdir()
    cluster.jobs_by_id[job].storage = job_folder(tmp_path / "job", sales(600))
    lines = headrace("list", "tills").stdout.splitlines()
    assert lines[0] == "checkpoint 5 of tills (job 0123456789ab)"
    assert lines[3].endswith(" old; --fresh takes one first")
    read = headrace("read", job, "--node", "totals", "--key", "shop=south", "--key", "till=7", "--fresh")
    assert read.stderr.startswith("checkpoint 5, ")
    assert read.stdout.splitlines()[1].split()[:3] == ["south", "7", "8"]
    assert cluster.checkpoints_taken == 1
    with connect() as client:
        assert client.state(job).steps == ("hourly", "totals")
        kept = client.state_rows(job, StateQuery("totals", "groups", ("shop=south", "till=7"), rows=1))
    assert (kept.state, kept.more, [row["till"] for row in kept.rows]) == ("groups", False, [7])
    assert "has no checkpoint 9\n  retained: 5" in headrace("list", job, "--epoch", "9", code=2).stderr


def test_what_is_no_path_and_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, savepoint: Path) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HEADRACE_COORDINATOR", raising=False)
    unknown = headrace("list", "nothing", code=2).stderr
    assert "/nothing, and no cluster that has a job 'nothing'" in unknown
    assert "no checkpoint can be taken of" in headrace("list", str(savepoint), "--fresh", code=2).stderr
