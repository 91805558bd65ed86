"""Which files count as saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.development.dev import changed, look


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    for name in ("p.yaml", "other.yaml", "steps.py", "lib/more.py", ".hidden/x.py", "env/pyvenv.cfg", "env/y.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    return tmp_path / "p.yaml"


def test_the_file_and_modules_beside_and_below_it(pipeline: Path) -> None:
    names = {str(path.relative_to(pipeline.parent)) for path in look(pipeline)}
    assert names == {"p.yaml", "steps.py", "lib/more.py"}


def test_written_in_place_replaced_added_and_deleted(pipeline: Path) -> None:
    before = look(pipeline)
    assert changed(before, look(pipeline)) == ()
    pipeline.write_text("22")
    (pipeline.parent / "new").write_text("1")
    (pipeline.parent / "new").replace(pipeline.parent / "steps.py")
    (pipeline.parent / "lib" / "more.py").unlink()
    (pipeline.parent / "added.py").write_text("")
    found = changed(before, look(pipeline))
    assert {path.name for path in found} == {"p.yaml", "steps.py", "more.py", "added.py"}


def test_a_file_that_is_gone_for_a_moment_is_no_error(pipeline: Path) -> None:
    before = look(pipeline)
    pipeline.unlink()
    assert changed(before, look(pipeline)) == (pipeline,)
