"""Without the extra the page says what to install."""

from __future__ import annotations

import sys

import pytest

from headrace.cli.cluster.page_extra import require_page_extra
from headrace.core.errors import UserError


def test_the_extra_is_installed_here() -> None:
    require_page_extra()


def test_without_it_the_remedy_is_a_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    with pytest.raises(UserError) as raised:
        require_page_extra()
    assert raised.value.remedy == "pip install 'headrace[ui]'"
