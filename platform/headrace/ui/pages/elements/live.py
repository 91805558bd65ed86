"""A page that is kept up to date: it wants documents of the poller, and is called after each of its rounds.

Nothing begins before the browser has connected: a caller without JavaScript gets the bare page, and leaves nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from nicegui import Client, ui

from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Want

CONNECT_SECONDS = 10.0
_log = logging.getLogger(__name__)


class Live:
    """One open page."""

    def __init__(self, poller: Poller) -> None:
        self.poller = poller
        self._wants: set[Want] = set()
        self._refresh: Callable[[], None] | None = None
        self._client: Client | None = None

    async def follow(self, refresh: Callable[[], None], *wants: Want) -> None:
        """Calls `refresh` now and after each round, until the browser has left."""
        client = ui.context.client
        try:
            await client.connected(timeout=CONNECT_SECONDS)
        except TimeoutError:
            return
        if client.is_deleted:
            return
        self._client, self._refresh = client, refresh
        client.on_delete(self._leave)
        for want in wants:
            self.want(want)
        self.poller.listeners.add(self._called)
        self._called()

    def want(self, want: Want) -> None:
        """The page shows the document from now on."""
        if want not in self._wants:
            self._wants.add(want)
            self.poller.want(want)

    def drop(self, want: Want) -> None:
        """The page does not show it any more."""
        if want in self._wants:
            self._wants.remove(want)
            self.poller.drop(want)

    def _called(self) -> None:
        if self._refresh is None or self._client is None:
            return
        try:
            with self._client:
                self._refresh()
        except Exception:  # one page's fault must not end the poller, nor other pages
            _log.exception("a page could not be drawn")

    def _leave(self) -> None:
        self.poller.listeners.discard(self._called)
        for want in list(self._wants):
            self.drop(want)
