"""What an import costs: `POLARS_MAX_THREADS` must be set before polars loads, and `--help` must answer at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ["confluent_kafka", "numpy", "orjson", "polars", "polars_hash", "pyarrow", "pydantic", "sqlglot"]


def loaded_by(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after `code`."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", ["headrace", "headrace.cli.app"])
def test_an_import_loads_no_engine(module: str) -> None:
    assert sorted(loaded_by(f"import {module}").intersection(HEAVY)) == []


def test_importing_headrace_loads_nothing_that_is_not_python_s_own() -> None:
    before = loaded_by("")
    assert loaded_by("import headrace") - before - set(sys.stdlib_module_names) == {"headrace"}
