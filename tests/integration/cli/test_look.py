"""preview, infer, connectors, init, and the command as a whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from headrace.connect.registry import connector_names
from support.processes.running import WAIT_SECONDS
from support.repository import ROOT

from .conftest import PATIENTLY, Headrace

pytestmark = pytest.mark.turns(2)


def test_preview_shows_rows_of_any_node_and_writes_nothing(headrace: Headrace, pipeline: Path, tmp_path: Path) -> None:
    found = {
        node: json.loads(headrace("preview", str(pipeline), node, *PATIENTLY, "--json").stdout)
        for node in ("rides", "finished", "hourly", "hourly.late", "out")
    }

    assert {node: len(document["rows"]) for node, document in found.items()} == {
        "rides": 5,
        "finished": 4,
        "hourly": 3,
        "hourly.late": 1,
        "out": 3,
    }
    assert found["hourly.late"]["rows"][0]["started"] == "2024-05-01T08:59:00.000Z"
    assert not found["out"]["timed_out"]
    assert not (tmp_path / "out").exists()


def test_preview_as_a_table(headrace: Headrace, pipeline: Path) -> None:
    result = headrace("preview", str(pipeline), "rides", "-n", "2", *PATIENTLY)

    assert result.stdout.splitlines() == [
        "station          minutes  started",
        "string not null  float64  timestamp not null",
        "a                10.0     2024-05-01T08:05:00.000Z",
        "b                4.5      2024-05-01T08:10:00.000Z",
    ]


ENDLESS = """\
name: endless
sources:
  ticks:
    generator:
      columns:
        n: {sequence: {start: 0}}
        at: {time: {start: "2024-01-01T00:00:00Z", step: 1ms}}
    schema:
      n: int64 not null
      at: timestamp not null
    time:
      column: at
steps:
  none:
    from: ticks
    filter: n < 0
sinks:
  out:
    from: none
    print: {}
"""


def test_preview_of_an_endless_source_ends(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "endless.yaml"
    file.write_text(ENDLESS)

    rows = headrace("preview", str(file), "ticks", "-n", "3", *PATIENTLY, "--json")
    none = headrace("preview", str(file), "none", "--seconds", "0.3")

    assert [row["n"] for row in json.loads(rows.stdout)["rows"]] == [0, 1, 2]
    assert none.exit_code == 0
    assert "no rows within 0.3 s" in none.stderr


def test_infer_makes_a_schema_that_the_pipeline_takes(headrace: Headrace, pipeline: Path, tmp_path: Path) -> None:
    result = headrace("infer", str(tmp_path / "rides.jsonl"), "--key", "station")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "schema:",
        "  station: string not null",
        "  minutes: float64",
        "  started: timestamp",
        "time:",
        "  column: started",
        "  out_of_orderness: 1m  # 0 of 5 sampled rows would be late",
    ]


def test_infer_reads_values_that_no_column_can_hold(headrace: Headrace, tmp_path: Path) -> None:
    row = f'{{"id": 1, "note": "cut \\ud83d", "x": 1e400, "n": {"7" * 5_000}, "\\ud83d": 3}}'
    (tmp_path / "odd.jsonl").write_text(f'{row}\n{{"id": 2, "note": "fine", "x": 1.5}}\n')
    result = headrace("infer", str(tmp_path / "odd.jsonl"))
    assert result.exit_code == 0, result.stderr
    for line in ("id: int64", "note: string", "x: float64", "n: float64"):
        assert f"  {line}\n" in result.stdout


def test_infer_reads_csv_and_parquet(headrace: Headrace, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,code,at,x\n1,007,2024-01-01T00:00:00Z,\n2,012,2024-01-02T00:00:00Z,1.5\n")
    pl.DataFrame({"id": [1, 2], "tags": [["x"], None], "small": pl.Series([1, 2], dtype=pl.Int16)}).write_parquet(
        tmp_path / "a.parquet"
    )

    csv = json.loads(headrace("infer", str(tmp_path / "*.csv"), "--json").stdout)
    parquet = json.loads(headrace("infer", str(tmp_path / "a.parquet"), "--json").stdout)

    assert csv["schema"] == {
        "id": "int64",
        "code": "string",
        "at": "timestamp",
        "x": "float64",
    }
    assert csv["format"] == "{csv: {header: true}}"
    assert (csv["out_of_orderness_ms"], csv["late"]) == (0, 0)
    assert (csv["rows"], csv["time"]) == (2, "at")
    assert parquet["schema"] == {"id": "int64", "tags": ["string"], "small": "int32"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "", "no rows"),
        ("a.jsonl", "{]\n", "record 1 is not JSON"),
        ("a.jsonl", "[1]\n", "no JSON object but list"),
        ("a.csv", "a,a\n1,2\n", "names no columns, or some twice"),
        ("a.data", "x\n", "the format cannot be detected"),
        ("a.parquet", "x\n", "not a Parquet file"),
    ],
)
def test_infer_says_what_is_wrong(headrace: Headrace, tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)

    result = headrace("infer", str(tmp_path / name))

    assert result.exit_code == 2
    assert message in result.stderr


def test_connectors(headrace: Headrace) -> None:
    listed = json.loads(headrace("connectors", "--json").stdout)["connectors"]
    assert [item["name"] for item in listed] == list(connector_names())
    assert len(headrace("connectors").stdout.splitlines()) == len(listed)

    kafka = json.loads(headrace("connectors", "kafka", "--json").stdout)
    fields = {field["name"]: field for field in kafka["source"]["fields"]}
    assert fields["brokers"]["required"]
    assert fields["start"]["default"] == "earliest"
    assert "schema:" in kafka["source"]["example"]
    assert {field["name"]: field["default"] for field in kafka["sink"]["fields"]}["transaction_timeout"] == "15m"
    text = headrace("connectors", "kafka").stdout
    assert "sink (format: required)" in text
    assert "metadata.headers" in text
    assert fields["start"]["words"] == ["earliest", "latest", "committed", "archived"]
    inner = {field["name"]: field for field in fields["metadata"]["fields"]}
    assert inner["headers"]["description"]
    for name in connector_names():
        assert headrace("connectors", name).exit_code == 0


def test_functions(headrace: Headrace) -> None:
    listed = json.loads(headrace("functions", "--json").stdout)["functions"]
    assert {"round", "coalesce", "sum"} <= {item["name"] for item in listed}
    lines = headrace("functions").stdout.splitlines()
    assert [item["name"] for item in listed] == [line.split()[0] for line in lines if line.startswith("  ")]

    (upper,) = json.loads(headrace("functions", "upper", "--json").stdout)["functions"]
    assert upper["signatures"] == ["upper(string) -> string"]
    assert (upper["example"], upper["result"]) == ("upper('jfk')", "'JFK'")
    assert "example: sum(x) = 7 for x = 3, NULL, 1, 3" in headrace("functions", "sum").stdout
    assert "date_trunc(" in headrace("functions", "date_").stdout

    unknown = headrace("functions", "uper")
    assert unknown.exit_code == 2
    assert "nearest: upper" in unknown.stderr


def test_steps(headrace: Headrace) -> None:
    listed = json.loads(headrace("steps", "--json").stdout)["steps"]
    assert {("filter", "verb"), ("aggregate", "verb"), ("sliding", "window")} <= {
        (e["name"], e["kind"]) for e in listed
    }
    assert len(headrace("steps").stdout.splitlines()) == len(listed)

    aggregate = json.loads(headrace("steps", "aggregate", "--json").stdout)
    assert "allowed_lateness" in {field["name"] for field in aggregate["fields"]}
    assert "window: {tumbling: 1h}" in aggregate["example"]
    assert "example, in a step:" in headrace("steps", "sliding").stdout
    assert "explode: codes" in headrace("steps", "explode").stdout

    unknown = headrace("steps", "agregate")
    assert unknown.exit_code == 2
    assert "did you mean 'aggregate'?" in unknown.stderr


def test_docs(headrace: Headrace) -> None:
    listed = json.loads(headrace("docs", "--json").stdout)["pages"]
    assert {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")} == {
        page["page"] for page in listed
    }
    assert {"page": "exactly-once", "title": "Exactly once"} in listed
    assert len(headrace("docs").stdout.splitlines()) == len(listed)

    text = (ROOT / "docs/concepts/event-time.md").read_text()
    assert headrace("docs", "concepts/event-time").stdout == text
    assert headrace("docs", "docs/concepts/event-time.md").stdout == text
    assert json.loads(headrace("docs", "event-t", "--json").stdout)["text"] == text

    for name, remedy in (("exatly-once", "nearest: exactly-once"), ("tutorial", "tutorial-first"), ("x", "lists all")):
        unknown = headrace("docs", name)
        assert unknown.exit_code == 2
        assert remedy in unknown.stderr


def test_connectors_shows_a_format(headrace: Headrace) -> None:
    csv = json.loads(headrace("connectors", "csv", "--json").stdout)
    assert {field["name"]: field["default"] for field in csv["fields"]}["delimiter"] == ","
    assert csv["example"].startswith("format:")
    assert "delimiter" in headrace("connectors", "csv").stdout
    assert headrace("connectors", "no-such").exit_code == 2


def test_init_makes_a_project_that_works(headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project"

    made = headrace("init", str(folder))
    monkeypatch.chdir(folder)

    assert made.exit_code == 0, made.output
    assert headrace("validate", "pipeline.yaml").exit_code == 0
    tested = headrace("test", "pipeline.yaml")
    assert tested.stdout.endswith("2 passed, 0 failed\n")
    ran = headrace("run", "pipeline.yaml")
    assert ran.exit_code == 0
    again = headrace("init", str(folder))
    assert again.exit_code == 2
    assert "already there" in again.stderr


def test_version_and_start_up_without_the_engine() -> None:
    code = (
        "import sys; from headrace.cli.app import app; "
        "from typer.testing import CliRunner; "
        "found = CliRunner().invoke(app, ['--help']); assert found.exit_code == 0, found.output; "
        "heavy = {'polars', 'pyarrow', 'pydantic', 'confluent_kafka', 'numpy', 'sqlglot'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_SECONDS)
    version = subprocess.run(
        [sys.executable, "-m", "headrace", "--version"], check=True, capture_output=True, timeout=WAIT_SECONDS
    )
    assert version.stdout.startswith(b"headrace ")


def test_no_arguments_show_help(headrace: Headrace) -> None:
    result = headrace()

    assert "Commands:" in result.output
    assert headrace("runn").exit_code == 2
