"""Whether the extra of the page is installed."""

from __future__ import annotations

from importlib.util import find_spec

from headrace.core.errors import UserError


def require_page_extra() -> None:
    """Raises UserError if NiceGUI is missing. It is not imported here."""
    if find_spec("nicegui") is None:
        raise UserError("the page needs NiceGUI, which is not installed", remedy="pip install 'headrace[ui]'")
