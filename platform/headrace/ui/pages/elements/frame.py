"""The frame around each page: head with links and the scheme, and a banner while the coordinator does not answer."""

from __future__ import annotations

from nicegui import ui

from headrace.ui.polling.poller import Poller
from headrace.ui.views.formats import duration_text

_LINKS = (("Jobs", "/"), ("Workers", "/workers"), ("Submit", "/submit"))
_NEXT_SCHEME = {None: True, True: False, False: None}
_SCHEME_NAMES = {None: "as the system has it", True: "dark", False: "light"}
_SCHEME_COOKIE = "headrace_scheme"
_SCHEMES = {"dark": True, "light": False}


class Frame:
    """Made at the top of a page."""

    def __init__(self, poller: Poller, title: str, here: str) -> None:
        """here: the path of the link that is marked."""
        self._poller = poller
        self._dark = ui.dark_mode(_SCHEMES.get(ui.context.client.request.cookies.get(_SCHEME_COOKIE, "")))
        ui.page_title(f"{title} - Headrace")
        with ui.header():
            ui.link("Headrace", "/").classes("brand")
            for text, path in _LINKS:
                ui.link(text, path).classes("here" if path == here else "")
            ui.space()
            ui.button(icon="contrast", on_click=self._next_scheme).props(
                'flat round dense color=white aria-label="Light or dark"'
            )
        self._trouble = ui.label().classes("trouble").props('role="alert"')
        self._trouble.set_visibility(False)

    def refresh(self) -> None:
        """Shows or hides the banner."""
        trouble, age_s = self._poller.trouble, self._poller.age_s
        self._trouble.set_visibility(trouble is not None)
        if trouble is not None:
            since = (
                "nothing has been read yet" if age_s is None else f"figures are {duration_text(int(age_s) * 1000)} old"
            )
            self._trouble.text = f"The coordinator does not answer; {since}. {trouble}"

    def _next_scheme(self) -> None:
        self._dark.value = _NEXT_SCHEME[self._dark.value]
        kept = next((name for name, value in _SCHEMES.items() if value is self._dark.value), "")
        # read when the next page is made; it holds nothing but the scheme
        ui.run_javascript(f"document.cookie = '{_SCHEME_COOKIE}={kept}; path=/; samesite=strict; max-age=31536000'")
        ui.notify(f"Colours: {_SCHEME_NAMES[self._dark.value]}", position="top")
