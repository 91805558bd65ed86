"""Pages name files and modules that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages.names import dead_folders, dead_names, is_for_developers
from support.repository import ROOT, pages

NAMING = [page for page in pages() if page.name != "CHANGELOG.md"]
"""The changelog names what was there."""


@pytest.mark.parametrize("page", NAMING, ids=str)
def test_a_page_names_files_and_modules_that_exist(page: Path) -> None:
    assert dead_names((ROOT / page).read_text(), developers=is_for_developers(page)) == []


def test_the_table_of_packages_names_folders_that_exist() -> None:
    assert dead_folders((ROOT / "ARCHITECTURE.md").read_text()) == []


MADE_UP = """
`worker/task/ingest.py` decodes, `worker/ingest.py` is gone, and so is `nothing.py`;
`tests/tidy/pages/test_pages.py` stands.
`headrace.core.types`, `headrace.core.types.Schema` and `headrace.Pipeline` stand; `headrace.core.kinds` and
`headrace.core.types.Kind` do not. `headrace.connectors` is a group of entry points, `headrace.env` a file of the
reader, `checkpoint.interval` a setting, `exchange.mailbox` a module.

```python
import headrace.gone
```
"""


def test_dead_names_of_a_made_up_page_are_found() -> None:
    dead = ["worker/ingest.py", "nothing.py", "headrace.core.kinds", "headrace.core.types.Kind"]
    assert dead_names(MADE_UP, developers=False) == dead
    assert dead_names(MADE_UP, developers=True) == [*dead, "headrace.env", "checkpoint.interval"]


def test_dead_folders_of_a_made_up_table_are_found() -> None:
    table = "| package | what it owns |\n|---|---|\n| `worker` | `task/`, `host/` |\n| `plan`, `spec` | `reading/` |\n"
    assert dead_folders(table) == ["`worker`: host/"]
