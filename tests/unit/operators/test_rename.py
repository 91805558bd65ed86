"""Drop and rename touch names only."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.errors import UserError
from headrace.core.types import schema_of
from headrace.operators.rename import DropConfig, RenameConfig
from support.oracles.collector import run_operator

SCHEMA = schema_of({"a": "int64", "b": "string not null", "c": "bool"})
BATCH = pl.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [True, None], "__ts": [5, 6]})


def test_drop_leaves_the_rest() -> None:
    config = DropConfig("d", ("c", "a"), SCHEMA)
    assert str(config.output()) == "b: string not null"
    assert run_operator(config, BATCH).frame.equals(BATCH.select("b", "__ts"))


def test_all_columns_may_go() -> None:
    config = DropConfig("d", ("a", "b", "c"), SCHEMA)
    assert run_operator(config, BATCH).frame.equals(BATCH.select("__ts"))


def test_rename_is_all_at_once() -> None:
    config = RenameConfig("r", (("a", "b"), ("b", "a")), SCHEMA)
    assert str(config.output()) == "b: int64, a: string not null, c: bool"
    before = BATCH.clone()
    out = run_operator(config, BATCH)
    assert out.frame.columns == ["b", "a", "c", "__ts"]
    assert out.frame.rows() == BATCH.rows()
    assert BATCH.equals(before)
    assert BATCH.columns == before.columns


def test_wrong_names_are_refused() -> None:
    with pytest.raises(UserError, match="unknown column 'z'"):
        DropConfig("d", ("z",), SCHEMA).open()
    with pytest.raises(UserError, match="unknown column 'z'"):
        RenameConfig("r", (("z", "y"),), SCHEMA).open()
    with pytest.raises(UserError, match="two columns are named 'c'"):
        RenameConfig("r", (("a", "c"),), SCHEMA).output()
