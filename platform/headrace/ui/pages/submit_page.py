"""The page that submits a pipeline: checked, shown as a plan, asked twice."""

from __future__ import annotations

from nicegui import ui

from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.client.submission import file_form
from headrace.core.errors import HeadraceError
from headrace.ui.pages.elements.asked_twice import AskedTwice
from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import panel
from headrace.ui.pages.elements.pipeline_form import EXAMPLE, PipelineForm
from headrace.ui.polling.poller import Poller


def submit_page(poller: Poller) -> None:
    """Registers the page."""

    @ui.page("/submit")
    def submit() -> None:
        frame, live = Frame(poller, "Submit", "/submit"), Live(poller)
        _SubmitForm(poller)
        live.follow(frame.refresh)


class _SubmitForm:
    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._form = PipelineForm(poller.access, EXAMPLE)
        with panel("Start"):
            self._savepoint = ui.input("From a savepoint or checkpoint")
            self._savepoint.props('dense outlined hint="A path or URL. Empty: without state"').style("width:100%")
            self._dropped = ui.checkbox("Start even if state in it fits no node and is lost")
            self._duplicate = ui.checkbox("Start even if a job of this name runs")
            self._wrong = ui.label().classes("wrong")
            ui.button("Submit", on_click=self._ask).props("no-caps")

    async def _ask(self) -> None:
        self._wrong.text = ""
        result = await self._form.check()
        if result.compiled is None:
            self._wrong.text = "The pipeline has mistakes: they are listed above."
            return
        name, origin = result.compiled.pipeline.name, self._savepoint.value.strip()
        request = SubmitRequest(
            pipeline=file_form(result.compiled.pipeline),
            from_savepoint=origin or None,
            allow_dropped_state=bool(self._dropped.value),
            allow_duplicate=bool(self._duplicate.value),
        )
        begins = f"It starts from the state in {origin}." if origin else "It starts without state."
        dialog = AskedTwice(
            f"Submit {name}?",
            consequence=f"{begins} Its sinks write as soon as it runs.",
            name=name,
            verb="Submit the job",
        )
        dialog.open(lambda: self._submit(request))

    async def _submit(self, request: SubmitRequest) -> None:
        def action(client: Client) -> str:
            return client.submit(request)

        try:
            job = await self._poller.access.act(action)
        except HeadraceError as error:
            self._wrong.text = str(error)
            return
        self._poller.refresh()
        ui.navigate.to(f"/jobs/{job}")
