"""A run of pytest over tests made for the purpose, with this suite's plugins: for tests of those."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.patience import WAIT_SECONDS
from support.repository import ROOT

PLUGINS = ("scheduling", "tally", "traces")
_OF_EACH_RUN = "tiers"
"""Has the option that others ask for."""
_CONFTEST = """
pytest_plugins = [{plugins}]
"""


def inner_run(
    folder: Path, files: dict[str, str], *arguments: str, plugins: Sequence[str] = PLUGINS
) -> tuple[int, str]:
    """Exit code and output. `files`: name below `folder` -> its text; `plugins`: modules of `support.suite`."""
    conftest = _CONFTEST.format(plugins=", ".join(f'"support.suite.{name}"' for name in (_OF_EACH_RUN, *plugins)))
    for name, text in {"pytest.ini": "[pytest]\n", "conftest.py": conftest, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--import-mode=importlib", "-p", "no:hypothesispytest", *arguments],
        cwd=folder,
        env=outer | {"PYTHONPATH": str(ROOT / "tests"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
