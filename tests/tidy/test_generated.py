"""Generated files are as their sources say."""

from __future__ import annotations

from pathlib import Path

from headrace.rpc.generate import generate
from support.repository import ROOT

PACKAGE = Path("headrace/rpc/v1")


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*_pb2*.py*")}


def test_protobuf_modules_are_what_the_schemas_say(tmp_path: Path) -> None:
    generate(ROOT, tmp_path)
    assert _texts(ROOT / "platform" / PACKAGE) == _texts(tmp_path / PACKAGE), "run `make docs`"
