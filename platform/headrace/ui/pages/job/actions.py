"""The actions of a job's page: savepoint, rescale, stop, cancel and upgrade. Each is asked twice."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from headrace.client.http import Client
from headrace.client.models import Trigger
from headrace.ui.pages.elements.asked_twice import AskedTwice
from headrace.ui.polling.operations import Operations

Show = Callable[[str], object]


class JobActions:
    """The buttons; made in the current slot."""

    def __init__(self, operations: Operations, job: str) -> None:
        self._operations = operations
        self._job = job
        self.name = ""
        """The job's name, which has to be typed; set with the first status."""
        self.parallelism = 1
        with ui.element("div").classes("actions") as self.box:
            for text, ask in (
                ("Savepoint", self._ask_savepoint),
                ("Rescale", self._ask_rescale),
                ("Upgrade", self._open_upgrade),
                ("Stop", self._ask_stop),
                ("Cancel", self._ask_cancel),
            ):
                ui.button(text, on_click=ask).props("dense outline no-caps padding='4px 12px'")

    def _ask_savepoint(self) -> None:
        dialog = AskedTwice(
            f"Take a savepoint of {self.name}?",
            consequence="A checkpoint that stays until you delete it. The job runs on.",
            name=self.name,
            verb="Take a savepoint",
        )
        with dialog.fields:
            folder = _text("Folder or URL", hint="Empty: the coordinator's own")

        async def act() -> None:
            directory = folder.value.strip() or None
            await self._run("Savepoint", lambda client: client.savepoint(self._job, directory))

        dialog.open(act)

    def _ask_rescale(self) -> None:
        dialog = AskedTwice(
            f"Rescale {self.name}?",
            consequence="The job takes a checkpoint, stops, and starts again from it. It puts out nothing meanwhile.",
            name=self.name,
            verb="Rescale the job",
        )
        with dialog.fields:
            number = ui.number("Parallelism", value=self.parallelism, min=1, precision=0).props("dense outlined")

        async def act() -> None:
            parallelism = int(number.value or 1)
            await self._run("Rescale", lambda client: client.rescale(self._job, parallelism))

        dialog.open(act)

    def _ask_stop(self) -> None:
        dialog = AskedTwice(
            f"Stop {self.name}?",
            consequence="The job ends with a last checkpoint, or a savepoint. Another job can go on from there.",
            name=self.name,
            verb="Stop the job",
            danger=True,
        )
        with dialog.fields:
            folder = _text("Savepoint in this folder or URL", hint="Empty: a last checkpoint")
            drain = ui.checkbox("Drain: close every window first, for a job that never goes on")

        async def act() -> None:
            directory, drained = folder.value.strip() or None, bool(drain.value)
            await self._run("Stop", lambda client: client.stop(self._job, directory, drain=drained))

        dialog.open(act)

    def _ask_cancel(self) -> None:
        dialog = AskedTwice(
            f"Cancel {self.name}?",
            consequence="The job ends at once, without a checkpoint: what it has not committed is discarded. "
            "Its checkpoints stay.",
            name=self.name,
            verb="Cancel the job",
            danger=True,
        )

        async def act() -> None:
            await self._run("Cancel", lambda client: client.cancel(self._job))

        dialog.open(act)

    def _open_upgrade(self) -> None:
        ui.navigate.to(f"/jobs/{self._job}/upgrade")

    async def _run(self, name: str, begin: Callable[[Client], Trigger]) -> None:
        def action(client: Client, show: Show) -> str:
            done = client.wait_trigger(begin(client), on_look=lambda seen: show(seen.progress or "in progress"))
            return "; ".join(each for each in (f"done: {done.path}" if done.path else "done", done.progress) if each)

        await self._operations.run(self._job, name, action)


def _text(label: str, *, hint: str) -> ui.input:
    return ui.input(label).props(f'dense outlined hint="{hint}"').style("width:100%")
