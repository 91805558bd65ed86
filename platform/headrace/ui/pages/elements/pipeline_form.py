"""The form for a pipeline: editor or file, overrides, mistakes with their lines, and the plan as a graph."""

from __future__ import annotations

from functools import partial

from nicegui import events, ui

from headrace.core.errors import UserError
from headrace.ui.pages.elements.graph import Graph
from headrace.ui.pages.elements.panels import panel
from headrace.ui.plan_check import TEXT_BYTES_MAX, Checked, checked
from headrace.ui.polling.cluster_access import ClusterAccess

EXAMPLE = """\
name: counting
sources:
  numbers:
    generator: {rate: 100, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out:
    from: numbers
    print: {}
    format: json
"""


class PipelineForm:
    """Made in the current slot."""

    def __init__(self, access: ClusterAccess, text: str = "") -> None:
        """text: the first content of the editor."""
        self._access = access
        with panel("Pipeline"):
            self._text = ui.codemirror(text, language="YAML", theme="basicLight").classes("editor")
            with ui.row().classes("q-mt-sm").style("width:100%;gap:12px;align-items:flex-start"):
                ui.upload(
                    label="or a file", auto_upload=True, on_upload=self._uploaded, max_file_size=TEXT_BYTES_MAX
                ).props("flat bordered accept=.yaml,.yml").style("width:240px;max-width:100%")
                self._overrides = ui.textarea("Overrides, PATH=VALUE, one a line").props("outlined dense autogrow")
                self._overrides.style("flex:1 1 260px")
                self._parallelism = ui.number("Parallelism", min=1, precision=0).props("outlined dense")
                self._parallelism.style("width:140px")
            ui.button("Check", on_click=self.check).props("no-caps outline").classes("q-mt-sm")
        with panel("Plan"):
            self._result = ui.element("div")
        with self._result:
            ui.label("Not checked yet.").classes("dim")

    async def check(self) -> Checked:
        """Checks and plans the text, and shows the result."""
        number = None if self._parallelism.value is None else int(self._parallelism.value)
        text, overrides = self._text.value, self._overrides.value or ""
        result = await self._access.compute(lambda: checked(text, overrides, number))
        self._result.clear()
        with self._result:
            ui.label(result.summary).classes("wrong" if result.mistakes else "good")
            for mistake in result.mistakes:
                shown = ui.label(mistake.text).classes("problem")
                if mistake.line is not None:
                    shown.on("click", partial(self._text.reveal_line, mistake.line))
            if result.inputs is not None:
                Graph(result.inputs, {}, None)
        return result

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        try:
            self._text.value = (await event.file.read()).decode()
        except UnicodeDecodeError:
            ui.notify(str(UserError(f"{event.file.name} is no text")), type="negative")
