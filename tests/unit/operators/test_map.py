"""Map: importing the function, holding it to its contract, and finding the rows for which it raises."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from headrace.core.errors import DataError, UserError
from headrace.core.types import Field, Primitive, Schema, Struct, schema_of
from headrace.operators.map import MapConfig
from headrace.operators.operator import OnError
from support.oracles.collector import Collected, run_operator

FUNCTIONS = """
import sys
import polars as pl
CALLS = []
NOT_ONE = 3

def double(rows):
    assert "__ts" not in rows.columns
    return rows.select("k", (pl.col("x") * 2).alias("y"))

def picky(rows):
    CALLS.append(rows.height)
    for x in rows["x"]:
        if x < 0:
            raise ValueError(f"negative: {x}")  # line 15
    return double(rows)

def alone_only(rows):
    if rows.height > 1:
        raise RuntimeError
    return double(rows)

def panics(rows):
    raise pl.exceptions.PanicException("broken")

def exits(rows):
    if -1 in rows["x"]:
        sys.exit(3)
    return double(rows)

def fewer(rows):
    return rows.head(1)

def nothing(rows):
    return None

def same(rows):
    return rows

def deep(rows):
    return pl.DataFrame({"k": [1]}).select("missing")

class Scale:
    @staticmethod
    def ten(rows):
        return rows.select("k", y=pl.col("x") * 10)
"""

IN = schema_of({"k": "string", "x": "int64"})
OUT = schema_of({"k": "string", "y": "int64"})
STRUCT_OF_INT64 = Schema((Field("v", Struct((Field("a", Primitive.INT64),))),))


def batch(*xs: int) -> pl.DataFrame:
    return pl.DataFrame({"k": [f"k{x}" for x in xs], "x": xs, "__ts": range(len(xs))})


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules, first on the import path as a pipeline file's folder is."""
    (tmp_path / "mapping_fns.py").write_text(FUNCTIONS)
    (tmp_path / "mapping_broken.py").write_text("import not_a_module_at_all\n")
    (tmp_path / "mapping_raises.py").write_text("x = 1\nx / 0\n")
    (tmp_path / "mapping_exits.py").write_text("import sys\nsys.exit(4)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("mapping_")]:
        del sys.modules[name]


def mapped(function: str, rows: pl.DataFrame, schema: Schema = OUT, on_error: OnError = OnError.FAIL) -> Collected:
    return run_operator(MapConfig("m", f"mapping_fns:{function}", schema, IN, on_error), rows)


def test_visible_columns_in_declared_columns_out_hidden_ones_kept() -> None:
    out = mapped("double", batch(1, 2))
    assert out.frame.columns == ["k", "y", "__ts"]
    assert out.frame.rows() == [("k1", 2, 0), ("k2", 4, 1)]
    assert mapped("Scale.ten", batch(3)).rows == [{"k": "k3", "y": 30, "__ts": 0}]


@pytest.mark.parametrize("policy", [OnError.SKIP, OnError.DIVERT])
def test_only_rows_that_fail_alone_are_bad(policy: OnError, project: Path) -> None:
    xs = [1, -2, 3, 4, 5, -6, 7, 8, 9]
    out = mapped("picky", batch(*xs), on_error=policy)
    assert [row["y"] for row in out.rows] == [x * 2 for x in xs if x > 0]
    assert [row["__ts"] for row in out.rows] == [n for n, x in enumerate(xs) if x > 0]
    assert out.counters["bad"] == 2
    if policy is OnError.DIVERT:
        first, second = out.side("bad")
        place = f"({project / 'mapping_fns.py'}:15)"
        assert first["reason"] == f"mapping_fns:picky raised ValueError: negative: -2 {place}"
        assert (second["k"], second["x"], second["__ts"]) == ("k-6", -6, 5)


def test_all_rows_bad_gives_no_batch() -> None:
    out = mapped("picky", batch(-1, -2, -3), on_error=OnError.SKIP)
    assert not out.batches
    assert out.counters["bad"] == 3


def test_one_bad_row_costs_few_calls() -> None:
    mapped("picky", batch(*range(500), -1, *range(500)), on_error=OnError.SKIP)
    assert len(sys.modules["mapping_fns"].CALLS) <= 2 * 11


def test_a_function_that_raises_fails_the_job_with_the_row(project: Path) -> None:
    with pytest.raises(DataError) as caught:
        mapped("picky", batch(1, 2, -3, -4))
    message = caught.value.message
    assert f"mapping_fns:picky raised ValueError: negative: -3 ({project / 'mapping_fns.py'}:15)" in message
    assert "row: k='k-3', x=-3" in message
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_below_the_function_is_placed_in_the_function(project: Path) -> None:
    line = FUNCTIONS.splitlines().index('    return pl.DataFrame({"k": [1]}).select("missing")') + 1
    with pytest.raises(DataError, match=rf"raised ColumnNotFoundError: (.|\n)*mapping_fns.py:{line}\)"):
        mapped("deep", batch(1))


def test_a_function_that_raises_for_whole_batches_only() -> None:
    with pytest.raises(DataError, match=r"raised RuntimeError \(.*\n.*it depends on the batch"):
        mapped("alone_only", batch(1, 2))
    assert [row["y"] for row in mapped("alone_only", batch(1, 2), on_error=OnError.SKIP).rows] == [2, 4]


def test_a_polars_panic_is_an_exception_like_others() -> None:
    with pytest.raises(DataError, match="raised PanicException: broken"):
        mapped("panics", batch(1))


def test_a_function_that_exits_is_one_that_raises() -> None:
    out = mapped("exits", batch(1, -1, 2), on_error=OnError.SKIP)
    assert ([row["y"] for row in out.rows], out.counters["bad"]) == ([2, 4], 1)
    with pytest.raises(DataError, match="mapping_fns:exits raised SystemExit: 3"):
        mapped("exits", batch(1, -1, 2))


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_a_time_out_of_range_is_a_bad_row(unit: Literal["us", "ms"], monkeypatch: pytest.MonkeyPatch) -> None:
    def late(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(t=pl.when(pl.col("x") < 0).then(1 << 61).otherwise(0).cast(pl.Datetime(unit, "UTC")))

    monkeypatch.setattr(importlib.import_module("mapping_fns"), "late", late, raising=False)
    out = mapped("late", batch(1, -1, 2), schema_of({"t": "timestamp"}), on_error=OnError.DIVERT)
    assert [row["__ts"] for row in out.rows] == [0, 2]
    (bad,) = out.side("bad")
    assert "is a time outside of the years 1 to 9999" in str(bad["reason"])


def test_null_in_a_required_column_is_a_bad_row() -> None:
    schema = schema_of({"k": "string", "y": "int64 not null"})
    rows = batch(1, 2).with_columns(x=pl.Series([None, 2], dtype=pl.Int64))
    out = mapped("double", rows, schema, OnError.DIVERT)
    assert [row["y"] for row in out.rows] == [4]
    assert out.side("bad")[0]["reason"] == "mapping_fns:double gave NULL in 'y', which is not null"


@pytest.mark.parametrize("policy", list(OnError))
@pytest.mark.parametrize(
    ("function", "schema", "problem"),
    [
        ("fewer", IN, "made 1 rows of 2"),
        ("nothing", IN, "gave NoneType, not a polars DataFrame"),
        ("same", schema_of({"k": "string"}), "column 'x' is not in the schema"),
        ("same", schema_of({"k": "string", "x": "int64", "z": "bool"}), "column 'z' is missing"),
        (
            "same",
            schema_of({"k": "int64", "x": "int32"}),
            "column 'k' is String, but the schema says int64 (Int64); "
            "column 'x' is Int64, but the schema says int32 (Int32)",
        ),
    ],
)
def test_a_broken_contract_fails_under_any_policy(function: str, schema: Schema, problem: str, policy: OnError) -> None:
    with pytest.raises(UserError) as caught:
        mapped(function, batch(1, 2), schema, policy)
    assert not isinstance(caught.value, DataError)
    assert caught.value.message == f"map step 'm': mapping_fns:{function} {problem}" or (
        caught.value.message.startswith(f"map step 'm': mapping_fns:{function} {problem};")
    )


ONE = datetime(2013, 1, 1, 5, tzinfo=UTC)
NAIVE = ONE.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("made", "declared", "value"),
    [
        (pl.Series([7], dtype=pl.Int8), "int32", 7),
        (pl.Series([7], dtype=pl.UInt32), "int64", 7),
        (pl.Series([7], dtype=pl.Int32), "float64", 7.0),
        (pl.Series([1.5], dtype=pl.Float32), "float64", 1.5),
        (pl.Series(["a"], dtype=pl.Categorical), "string", "a"),
        (pl.Series([NAIVE], dtype=pl.Datetime("ms")), "timestamp", ONE),
        (pl.Series([ONE], dtype=pl.Datetime("us", "Europe/Paris")), "timestamp", ONE),
        (pl.Series([Decimal("1.5")], dtype=pl.Decimal(5, 1)), "decimal(10,2)", Decimal("1.50")),
        (pl.Series([[1]], dtype=pl.List(pl.Int16)), "[int64]", [1]),
        (pl.Series([{"a": 1}], dtype=pl.Struct({"a": pl.Int16})), None, {"a": 1}),
        (pl.Series([None], dtype=pl.Null), "string", None),
        (pl.Series([7], dtype=pl.UInt64), "int64", UserError),
        (pl.Series([7], dtype=pl.Int64), "float64", UserError),
        (pl.Series([1.5], dtype=pl.Float64), "float32", UserError),
        (pl.Series([NAIVE], dtype=pl.Datetime("ns")), "timestamp", UserError),
        (pl.Series([Decimal("1.5")], dtype=pl.Decimal(5, 1)), "decimal(4,1)", UserError),
        (pl.Series([True], dtype=pl.Boolean), "int64", UserError),
        (pl.Series([["a"]], dtype=pl.List(pl.String)), "[int64]", UserError),
        (pl.Series(["2013-01-01"], dtype=pl.String), "date", UserError),
    ],
)
def test_only_lossless_casts_are_made(
    made: pl.Series, declared: str | None, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("mapping_fns")
    monkeypatch.setattr(module, "constant", lambda _: made.alias("v").to_frame(), raising=False)
    schema = schema_of({"v": declared}) if declared else STRUCT_OF_INT64
    if value is UserError:
        with pytest.raises(UserError, match="column 'v' is"):
            mapped("constant", batch(1), schema)
    else:
        out = mapped("constant", batch(1), schema)
        assert out.frame.schema["v"] == schema.polars()["v"]
        assert out.rows[0]["v"] == value


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("mapping_fns", r"'mapping_fns' names no function\n.*write package.module:function"),
        ("mapping_fns:dobule", r"mapping_fns has no 'dobule'\n.*did you mean 'double'"),
        ("mapping_fns:NOT_ONE", "NOT_ONE is int, not a function"),
        ("mapping_absent:f", r"there is no module 'mapping_absent'\n.*put it into .*test_"),
        ("mapping_absent.inner:f", "there is no module 'mapping_absent.inner'"),
        ("mapping_broken:f", r"'mapping_broken' imports 'not_a_module_at_all', which is not there\n.*install it"),
        ("mapping_raises:f", r"raised ZeroDivisionError: .*mapping_raises.py:2\)"),
        ("mapping_exits:f", r"raised SystemExit: 4 .*mapping_exits.py:2\)"),
    ],
)
def test_what_cannot_be_imported_says_why(path: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem) as caught:
        MapConfig("m", path, OUT, IN).open()
    assert "map step 'm'" in caught.value.message
