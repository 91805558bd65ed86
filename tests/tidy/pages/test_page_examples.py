"""Each example on a page is executed or planned by a test.

A `yaml` block that begins with `name:` is a pipeline, and a `python` block that imports headrace in `coming-from` makes
one: here their tests run, and one without tests runs on rows of its schema. Blocks of other kinds, or parts of a file,
are run by the test that is named here, or have a reason why they are not. `test_page_commands` has blocks of commands.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from headrace.local.engine.compile import compile_loaded
from headrace.local.engine.pipeline_ends import input_schema
from headrace.local.engine.rows_run import run_on_rows
from headrace.local.engine.testcases import prepare_cases, run_cases
from headrace.local.pipeline_file import load_file
from support.pages.blocks import COMING_FROM, SHOWN, Block, blocks
from support.pages.sample_rows import sample_rows
from support.repository import ROOT

TESTED = {
    "docs/connectors.md": "tests/unit/spec/reference/test_pages.py",
    "docs/kubernetes.md": "tests/support/operator/page.py",
    "docs/python-api.md": "tests/unit/api/test_docs.py",
    "docs/steps.md": "tests/unit/spec/reference/test_pages.py",
    "docs/yarn.md": "tests/unit/deployment/yarn/test_description.py",
}
"""Pages whose parts of files are run by another test."""
NOT_RUN = {
    ("docs/coming-from/bytewax.md", "flow = Dataflow("): "Bytewax's half of a pair",
    ("docs/coming-from/bytewax.md", "clock = EventClock("): "Bytewax's half of a pair",
    ("docs/coming-from/bytewax.md", "stats = win.fold_window("): "Bytewax's half of a pair",
    ("docs/formats.md", "format: json"): "two ways to write one field; connectors.md has each option in a pipeline",
    ("docs/operations.md", "scrape_configs:"): "Prometheus's own file",
    ("docs/pipeline-file.md", "# yaml-language-server:"): "a comment for editors",
    ("docs/spark.md", "apiVersion: v1"): "applied by tests/support/kubernetes/spark_pods.py, on a real control plane",
    (
        "docs/spark.md",
        "import headrace.spark",
    ): "a notebook's cells with tables of the reader; tests/spark/session runs the calls",
}
"""(page, first words) -> why nothing here runs it."""
BLOCKS = list(blocks(SHOWN))
PIPELINES = [block for block in BLOCKS if block.is_pipeline]
WITH_TESTS = [block for block in PIPELINES if re.search(r"^tests:|\bp\.test\(", block.text, re.MULTILINE)]
WITHOUT_TESTS = [block for block in PIPELINES if block not in WITH_TESTS]
ROWS = 60
PARTS = [block for block in BLOCKS if re.match(r"(sources|sinks|state):", block.text)]
AROUND = {
    "sources": "name: whole\n{part}sinks: {{out: {{from: flights, print: {{}}}}}}\n",
    "sinks": """\
name: whole
sources:
  flights:
    generator: {{rows: 1, columns: {{origin: {{string: {{}}}}, at: {{time: {{}}}}}}}}
    schema: {{origin: string not null, at: timestamp}}
    time: {{column: at}}
steps:
  hourly: {{from: flights, key_by: [origin], window: {{tumbling: 1h}}, aggregate: {{n: count(*)}}}}
{part}
""",
    "state": """\
name: whole
{part}
sources: {{flights: {{memory: {{name: flights}}, schema: {{n: int64}}}}}}
sinks: {{out: {{from: flights, print: {{}}}}}}
""",
}
"""What a part of a pipeline file stands in."""


def _saved(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"example_{block.page.stem.replace('-', '_')}_{block.line}"
    file = folder / f"{name}.{'py' if block.kind == 'python' else 'yaml'}"
    file.write_text(block.text)
    return str(file)


@pytest.mark.parametrize("block", WITH_TESTS, ids=lambda block: block.place)
def test_a_pipeline_with_tests_passes_them(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_file(_saved(block, tmp_path, monkeypatch))
    results = list(run_cases(loaded.pipeline, prepare_cases(loaded)))
    assert results
    assert [(result.name, result.error, result.mismatches) for result in results if not result.passed] == []


@pytest.mark.parametrize("block", WITHOUT_TESTS, ids=lambda block: block.place)
def test_a_pipeline_without_tests_runs_on_rows_of_its_schema(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "secret")
    pipeline = load_file(_saved(block, tmp_path, monkeypatch)).pipeline
    rows = {name: sample_rows(input_schema(source), ROWS) for name, source in pipeline.sources.items()}
    ran = run_on_rows(pipeline, rows)
    assert sum(ran.counters[name]["rows_in"] for name in rows) == ROWS * len(rows)
    assert ran.outputs and all(output.frame().height for output in ran.outputs.values())


@pytest.mark.parametrize("page", sorted((ROOT / COMING_FROM).glob("*.md")), ids=lambda page: page.stem)
def test_pages_for_newcomers_have_examples_with_expected_rows(page: Path) -> None:
    own = [block for block in PIPELINES if ROOT / block.page == page]
    assert 3 <= len(own) <= 5
    assert all(block in WITH_TESTS for block in own)


@pytest.mark.parametrize("block", PARTS, ids=lambda block: block.place)
def test_a_part_of_a_file_is_planned_in_a_whole_one(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "secret")
    file = tmp_path / "pipeline.yaml"
    file.write_text(AROUND[block.text.partition(":")[0]].format(part=block.text))
    assert compile_loaded(load_file(str(file))).physical.tasks


def test_every_other_block_has_a_test_or_a_reason() -> None:
    known = dict.fromkeys(NOT_RUN, False)
    missing = []
    for block in BLOCKS:
        if block.kind not in {"yaml", "python"} or block in PIPELINES or block in PARTS or str(block.page) in TESTED:
            continue
        key = next((key for key in known if key[0] == str(block.page) and block.text.startswith(key[1])), None)
        if key is None:
            missing.append(block.place)
        else:
            known[key] = True
    assert missing == []
    assert [key for key, used in known.items() if not used] == []


def test_the_tests_that_are_named_read_their_pages() -> None:
    for page, test in TESTED.items():
        assert Path(page).name in (ROOT / test).read_text() or Path(page).stem in (ROOT / test).read_text(), test
