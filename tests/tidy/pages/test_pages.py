"""The pages keep what they promise: examples are valid, links lead somewhere, the index is whole."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import headrace
from headrace.local.engine.compile import compile_loaded
from headrace.local.pipeline_file import load_file
from support.pages.blocks import SHOWN, blocks
from support.repository import ROOT, pages

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def _pipelines() -> list[tuple[str, str]]:
    return [(block.place, block.text) for block in blocks(SHOWN) if block.kind == "yaml" and block.is_pipeline]


def test_the_first_page_shows_a_pipeline() -> None:
    assert any(place.startswith("README.md:") for place, _ in _pipelines())


@pytest.mark.parametrize(("place", "text"), _pipelines(), ids=[place for place, _ in _pipelines()])
def test_a_pipeline_on_a_page_is_valid(place: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    assert compile_loaded(load_file(str(file))).physical.tasks, place


def test_links_between_files_lead_somewhere() -> None:
    broken = []
    for page in pages():
        text = CODE.sub("", (ROOT / page).read_text())
        targets = [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]
        broken += [f"{page} -> {target}" for target in targets if not (ROOT / page.parent / target).exists()]
    assert broken == []


def test_the_index_names_every_page_of_the_docs() -> None:
    index = (ROOT / "docs/README.md").read_text()
    listed = {Path("docs", target) for target in LINK.findall(index)}
    assert {page for page in pages() if page.parts[0] == "docs"} - listed == {Path("docs/README.md")}


def test_the_changelog_knows_this_version() -> None:
    assert re.search(rf"^## {re.escape(headrace.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
