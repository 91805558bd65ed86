"""The log of a job's processes, read from where the page has it."""

from __future__ import annotations

import asyncio

from nicegui import ui

from headrace.core.errors import HeadraceError
from headrace.ui.pages.elements.panels import panel
from headrace.ui.polling.cluster_access import ClusterAccess

LINES_SHOWN = 300


class JobLogTail:
    """Made in the current slot."""

    def __init__(self, access: ClusterAccess, job: str) -> None:
        self._access = access
        self._job = job
        self._position: str | None = None
        self._reading: asyncio.Task[None] | None = None
        with panel("Log"):
            self._wrong = ui.label().classes("wrong")
            self._log = ui.log(max_lines=LINES_SHOWN).classes("log")

    def show(self) -> None:
        """Begins to read on, unless that is under way."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_on())

    async def _read_on(self) -> None:
        try:
            found = await self._access.poll(lambda client: client.log_lines(self._job, LINES_SHOWN, self._position))
        except HeadraceError as error:
            self._wrong.text = str(error)
            return
        self._position, self._wrong.text = found.position, ""
        for line in found.lines[-LINES_SHOWN:]:
            self._log.push(line)
