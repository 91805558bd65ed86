from __future__ import annotations

from pathlib import Path

import pytest

from support.kubernetes.programs import binaries
from support.kubernetes.programs.recipe import CONTROL, NODE
from support.suite.deferral import undeferred

CONTROL_FILE, NODE_FILE = (f"tests/integration/kubernetes/test_{kind}_cluster.py" for kind in ("control", "node"))
FILES = [NODE_FILE, "tests/unit/test_a.py", CONTROL_FILE]


def test_files_come_last_until_what_they_need_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "binaries_folder", lambda: tmp_path)
    assert undeferred(FILES) == ["tests/unit/test_a.py"]
    assert undeferred([NODE_FILE]) == [NODE_FILE], "there is nothing else to do"
    for component in CONTROL:
        (tmp_path / component.name).touch()
    assert undeferred(FILES) == ["tests/unit/test_a.py", CONTROL_FILE]
    for component in NODE:
        (tmp_path / component.name).touch()
    assert undeferred(FILES) == FILES
