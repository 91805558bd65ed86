"""Generated files are as their sources say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.reference import error_page
from headrace.coordinator.monitoring.document import metrics_page
from headrace.kubernetes_operator.definitions import FOLDERS, rendered
from headrace.rpc.generate import generate
from headrace.spec.reference import connector_page, step_page
from support.repository import ROOT

PACKAGE = Path("headrace/rpc")


def _texts(folder: Path) -> dict[str, str]:
    generated = [*(folder / "v1").glob("*_pb2*.py*"), folder / "messages.py"]
    return {path.name: path.read_text() for path in generated}


def test_control_messages_are_what_the_schemas_say(tmp_path: Path) -> None:
    generate(ROOT, tmp_path)
    assert _texts(ROOT / "platform" / PACKAGE) == _texts(tmp_path / PACKAGE), "run `make docs`"


def test_the_page_of_metrics_is_what_their_definitions_say() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == metrics_page(), "run `make docs`"


def test_definitions_of_resources_are_what_their_models_say() -> None:
    for folder in FOLDERS:
        files = {path.name: path.read_text() for path in (ROOT / folder).iterdir()}
        assert files == dict(rendered()), "run `make docs`"


@pytest.mark.parametrize(
    ("name", "page"),
    [("connectors.md", connector_page.page), ("steps.md", step_page.page), ("errors.md", error_page.page)],
)
def test_the_reference_is_what_the_models_say(name: str, page: Callable[[], str]) -> None:
    assert (ROOT / "docs" / name).read_text() == page(), "run `make docs`"
