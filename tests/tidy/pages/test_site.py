"""The documentation site is built strictly: each link and anchor leads somewhere, and no page needs another host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.repository import ROOT

ASSET = re.compile(
    r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*?\b(?:src|href|data)=[\"']?((?:https?:)?//[^\"'> ]+)"
)
STYLE = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')]+)")
BROKEN = """\
# Broken

[A page](gone.md), [a heading](#gone), [a file](../gone.txt), [a heading of a page](README.md#gone-too).
"""


def built(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(folder),
    ]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = built(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_it_has_all_pages_and_those_of_the_repository_that_they_link_to(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert pages - {Path("README")} <= made
    assert {Path("index"), Path("repository/ARCHITECTURE"), Path("repository/deploy/standalone/index")} <= made
    assert 'href="repository/ARCHITECTURE.html"' in (site / "index.html").read_text()
    assert (site / "repository/examples/backfill/v1.yaml.html").is_file()
    assert "DataFrame" in (site / "search/search_index.json").read_text()


def test_no_page_takes_anything_from_another_host(site: Path) -> None:
    found = {
        str(path.relative_to(site)): hosts
        for pattern, kind in ((ASSET, "*.html"), (STYLE, "*.css"), (STYLE, "*.html"))
        for path in site.rglob(kind)
        if (hosts := pattern.findall(path.read_text()))
    }
    assert found == {}
    # for such a block the theme's script fetches a program from another host
    assert [path for path in site.rglob("*.html") if 'class="mermaid"' in path.read_text()] == []


def test_bars_and_lists_are_as_a_plain_view_shows_them(site: Path) -> None:
    assert "<code>||</code>" in (site / "expressions.html").read_text()
    numbered = (site / "spark.html").read_text().partition('id="kubernetes"')[2].partition("<table")[0]
    assert numbered.count("<ol>") == 1
    assert "```" not in numbered


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text("# Index\n")
    (tmp_path / "docs/broken.md").write_text(BROKEN)
    (tmp_path / "docs/omitted.md").write_text("# Omitted\n")
    shutil.copytree(ROOT / "website", tmp_path / "website", ignore=shutil.ignore_patterns("__pycache__"))
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\nnav: [README.md, broken.md]\n")
    done = built(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    dead = ("gone.md", "#gone", "../gone.txt", "README.md#gone-too", "omitted.md")
    assert [target for target in dead if target not in done.stderr] == []
