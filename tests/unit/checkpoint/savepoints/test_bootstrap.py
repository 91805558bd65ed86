"""Savepoints out of values: keys lie where they belong, positions are whole, nothing is left of failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.savepoints.bootstrap import (
    Bootstrap,
    bootstrap,
    finish,
    given_states,
    new_folder,
    shares,
    write_share,
)
from headrace.checkpoint.savepoints.savepoint import damage, find
from headrace.checkpoint.savepoints.verdict import Verdict, judge
from headrace.checkpoint.stores.opening import read_url
from headrace.connect.source import Split, SplitId
from headrace.core.errors import UserError
from headrace.core.keygroups import key_groups
from headrace.core.signals import TIME_MIN
from headrace.plan.chaining import plan_physical
from headrace.plan.logical import plan_logical
from headrace.spec.reading.read import pipeline_from_dict
from headrace.state.parquet import read_row_groups

PIPELINE = pipeline_from_dict(
    {
        "name": "totals",
        "parallelism": 2,
        "max_parallelism": 12,
        "sources": {
            "orders": {
                "generator": {
                    "rows": 10, "partitions": 2, "columns": {"id": {"sequence": {}}, "at": {"time": {"step": "1s"}}},
                },
                "schema": {"id": "int64 not null", "at": "timestamp not null"},
                "time": {"column": "at"},
            }
        },
        "steps": {
            "totals": {"from": "orders", "key_by": ["id"], "aggregate": {"n": "count(*)"}},
            "hourly": {
                "from": "orders", "key_by": ["id"], "window": {"tumbling": "1h"}, "aggregate": {"n": "count(*)"},
                "allowed_lateness": "10m",
            },
            "kept": {"from": "orders", "filter": "id > 0"},
        },
        "sinks": {
            "out": {"from": "totals", "print": {}},
            "hours": {"from": "hourly", "print": {}},
            "rest": {"from": "kept", "print": {}},
        },
    }
)  # fmt: skip
PLAN = plan_physical(plan_logical(PIPELINE), PIPELINE)
NODES = {"orders": "source generator", "totals": "aggregate", "hourly": "aggregate", "kept": "filter"}
BOOT = Bootstrap(PLAN, NODES, "hash", "1.0", 1)
SPLITS = {"orders": [Split(SplitId("orders", number), 0, 5, ("detail",)) for number in range(2)]}
KEYS = pl.DataFrame({"id": range(200), "n": range(1, 201)})


def rows_of(manifest: Manifest, node: str, state: str) -> Mapping[int, pl.DataFrame]:
    return {
        handle.subtask: pl.concat(
            frame for part in handle.files for frame in read_row_groups(read_url(part.path), part.row_groups)
        )
        for handle in manifest.states
        if (handle.node, handle.state) == (node, state)
    }


def test_shares_hold_their_own_key_groups(tmp_path: Path) -> None:
    path = bootstrap(BOOT, {"totals": KEYS}, str(tmp_path), of=5)
    manifest = find(path).manifest
    assert damage(manifest) is None
    by_share = rows_of(manifest, "totals", "groups")
    assert sum(rows.height for rows in by_share.values()) == 200
    for handle in manifest.states:
        if handle.state == "groups":
            groups = key_groups(by_share[handle.subtask], ["id"], 12)
            assert handle.first_group <= groups.min()
            assert groups.max() <= handle.last_group
    verdicts = {each.node: each.verdict for each in judge(manifest, PLAN, {})}
    assert verdicts["totals"] is Verdict.RESTORED
    assert verdicts["hourly"] is Verdict.RESTORED or verdicts["hourly"] is Verdict.NEW


def test_positions_and_the_time_reached(tmp_path: Path) -> None:
    boot = replace(BOOT, positions={"orders": {"orders": {0: 3, 1: 2}}}, splits=SPLITS, reached_ms=3_600_000)
    manifest = find(bootstrap(boot, {"hourly": windows(1)}, str(tmp_path))).manifest
    source = manifest.sources["orders"]
    assert [(split.position, split.floor) for split in source.splits] == [(3, 3_600_000), (2, 3_600_000)]
    assert source.emitted == 3_600_000
    assert [split.detail for split in manifest.splits["orders"]] == [("detail",), ("detail",)]
    (time,) = rows_of(manifest, "hourly", "time").values()
    assert time.get_column("watermark").to_list() == [3_600_000]


def windows(hour: int) -> pl.DataFrame:
    start = pl.lit(hour * 3_600_000_000).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"id": [1], "n": [4]}).with_columns(window_start=start, window_end=start + pl.duration(hours=1))


def test_a_window_that_has_closed_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    open_ = replace(BOOT, reached_ms=3_600_000 + 600_000 - 2)
    assert find(bootstrap(open_, {"hourly": windows(0)}, str(tmp_path / "open"))).manifest.kind == "savepoint"
    closed = replace(BOOT, reached_ms=3_600_000 + 600_000 - 1)
    with pytest.raises(UserError, match=r"step hourly: the window of id 1, .* has closed"):
        bootstrap(closed, {"hourly": windows(0)}, str(tmp_path / "closed"))
    assert not [path for path in (tmp_path / "closed").rglob("*") if path.is_file()]


def test_files_that_others_wrote_elsewhere_make_no_savepoint(tmp_path: Path) -> None:
    here, elsewhere = new_folder(BOOT, str(tmp_path / "here")), new_folder(BOOT, str(tmp_path / "elsewhere"))
    handles = write_share(given_states(PLAN, ["totals"])["totals"], KEYS, shares(BOOT, "totals", 1)[0], elsewhere)
    with pytest.raises(UserError, match=r"has no state/.*a folder of another host"):
        finish(BOOT, handles, here)
    assert not (tmp_path / "here").exists()


def test_without_time_reached_every_window_is_open(tmp_path: Path) -> None:
    manifest = find(bootstrap(BOOT, {"hourly": windows(0)}, str(tmp_path))).manifest
    (time,) = rows_of(manifest, "hourly", "time").values()
    assert time.get_column("watermark").to_list() == [TIME_MIN]
    assert manifest.sources["orders"].emitted is None


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ({"order": {}}, r"there is no source 'order'(.|\n)*did you mean 'orders'"),
        ({"orders": {"orders": {0: 3}}}, r"do not name orders\[1\]"),
        ({"orders": {"orders": {0: 3, 1: 2, 2: 1}}}, r"has no orders\[2\](.|\n)*orders\[0\], orders\[1\]"),
        ({"orders": {"orders": {0: 3, 1: -1}}}, "is negative"),
    ],
)
def test_positions_are_whole(tmp_path: Path, positions: dict[str, dict[str, dict[int, int]]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        bootstrap(replace(BOOT, positions=positions, splits=SPLITS), {"totals": KEYS}, str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_only_steps_that_keep_state_are_given() -> None:
    with pytest.raises(UserError, match=r"there is no step 'total'(.|\n)*did you mean 'totals'"):
        given_states(PLAN, ["total"])
    with pytest.raises(UserError, match=r"step 'kept' keeps no state(.|\n)*totals, hourly"):
        given_states(PLAN, ["kept"])
