"""State as frames: what `headrace state` shows, from Python."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import headrace as hr
from headrace.core.errors import UserError
from support.storage.cuts import job_folder, sales, savepoint


def test_a_savepoint_and_a_checkpoint_after_it(tmp_path: Path) -> None:
    for name in ("saved", "job"):
        (tmp_path / name).mkdir()
    before = hr.open_state(Path(savepoint(tmp_path / "saved", sales(600))))
    after = hr.open_state(job_folder(tmp_path / "job", sales(600), sales(1, first=7), epoch=9), epoch=9)

    assert (before.epoch, after.epoch) == (5, 9)
    assert before.age_s > 0
    assert after.path.endswith(".json")
    listed = before.list()
    assert listed.filter(node="totals", state="groups")["keys"].to_list() == [["shop", "till"]]
    assert listed.filter(node="sales")["state"].to_list() == ["positions"]
    one = before.read("totals", key={"shop": "south", "till": 7})
    assert one.select("shop", "till", "n").rows() == [("south", 7, 8)]
    assert after.read("totals", key={"shop": "south", "till": "7"})["n"].to_list() == [9]
    assert before.read("hourly", where="n > 1000").is_empty()
    assert before.read("totals", "groups").height == 100
    differing = before.diff(after, "totals").filter(pl.col("changed") > 0)
    assert differing.select("state", "added", "removed", "changed").row(0) == ("groups", 0, 0, 1)
    with pytest.raises(UserError, match="key till=x: "):
        before.read("totals", key={"till": "x"})
