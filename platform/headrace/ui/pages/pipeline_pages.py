"""The pages that accept a pipeline: one submits it as a job, the other upgrades a job to it.

Both check the pipeline, show its plan (an upgrade: the verdict on each node), and ask for confirmation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nicegui import events, ui

from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.client.submission import file_form
from headrace.client.upgrade import upgrade as upgrade_job
from headrace.core.errors import HeadraceError, UserError
from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.graph import Graph
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.elements.panels import AskedTwice, Table, column, panel
from headrace.ui.pages.job.job_frame import JobFrame
from headrace.ui.plan_check import TEXT_BYTES_MAX, Checked, Verdicts, checked, verdicts_on
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.polling.operations import Operations
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want


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
            max_parallelism=self._form.max_parallelism,
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


_COLUMNS = (column("node", "Node"), column("verdict", "Verdict"), column("text", "What happens"))


def upgrade_page(poller: Poller, operations: Operations) -> None:
    """Registers the page."""

    @ui.page("/jobs/{job}/upgrade")
    def upgrade(job: str) -> None:
        frame, live = Frame(poller, "Upgrade", "/"), Live(poller)
        status = Want(Topic.STATUS, job)
        head = JobFrame(operations, job, "upgrade")
        _UpgradeForm(poller, operations, job)

        def refresh() -> None:
            frame.refresh()
            head.show(poller.status(job, None), poller.error(status))

        live.follow(refresh, status)


class _UpgradeForm:
    def __init__(self, poller: Poller, operations: Operations, job: str) -> None:
        self._poller = poller
        self._operations = operations
        self._job = job
        self._form = PipelineForm(poller.access)
        with panel("Verdicts on the state"):
            self._about = ui.label("Not judged yet.").classes("dim")
            self._table = Table(_COLUMNS, "node", nothing="")
            self._dropped = ui.checkbox("Go on even if state fits no node and is lost")
            self._wrong = ui.label().classes("wrong")
            with ui.row():
                ui.button("Judge", on_click=self._judge).props("no-caps outline")
                ui.button("Upgrade", on_click=self._ask).props("no-caps")

    async def _judge(self) -> tuple[Checked, Verdicts] | None:
        """Plans the pipeline and judges the job's last checkpoint, which has the same states as the one to come."""
        self._wrong.text = ""
        result = await self._form.check()
        compiled = result.compiled
        if compiled is None:
            self._wrong.text = "The pipeline has mistakes: they are listed above."
            return None
        status = self._poller.status(self._job, None)
        if status is None or status.checkpoint is None:
            verdicts = Verdicts("", unread="the job has no checkpoint yet")
        else:
            path, rehashes = status.checkpoint.path, self._form.max_parallelism is not None
            verdicts = await self._poller.access.compute(lambda: verdicts_on(compiled, path, rehashes=rehashes))
        judged = (
            f"from {verdicts.url}" if verdicts.unread is None else f"only the coordinator can judge: {verdicts.unread}"
        )
        self._about.text = judged
        self._table.show([{"node": each.node, "verdict": each.verdict, "text": each.text} for each in verdicts.lines])
        return result, verdicts

    async def _ask(self) -> None:
        judged = await self._judge()
        status = self._poller.status(self._job, None)
        if judged is None or status is None or judged[0].compiled is None:
            return
        (result, verdicts), allowed = judged, bool(self._dropped.value)
        if verdicts.unusable or (verdicts.loses and not allowed):
            self._wrong.text = "The pipeline cannot go on from this state: see the verdicts."
            return
        assert result.compiled is not None, "checked above"
        request = SubmitRequest(
            pipeline=file_form(result.compiled.pipeline),
            allow_dropped_state=allowed,
            max_parallelism=self._form.max_parallelism,
        )
        dialog = AskedTwice(
            f"Upgrade {status.name}?",
            consequence="The job stops with a last checkpoint, and the new pipeline goes on from it. If it is refused, "
            "the old one starts again.",
            name=status.name,
            verb="Upgrade the job",
            danger=True,
        )
        dialog.open(lambda: self._upgrade(request))

    async def _upgrade(self, request: SubmitRequest) -> None:
        new: list[str] = []

        def action(client: Client, show: Callable[[str], object]) -> str:
            done = upgrade_job(client, self._job, request, savepoint=None, tell=show)
            new.append(done.job)
            if done.refused is not None:
                raise done.refused
            return f"done: job {done.job} goes on from {done.path}"

        await self._operations.run(self._job, "Upgrade", action)
        if new:
            ui.navigate.to(f"/jobs/{new[0]}")


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
    """The form for a pipeline: editor or file, overrides, mistakes with their lines, and the plan as a graph.

    It is added to the current slot of the page.
    """

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
                self._groups = ui.number("Max parallelism", min=1, precision=0).props("outlined dense clearable")
                self._groups.tooltip("To change it: all keyed state is read and hashed anew").style("width:170px")
            ui.button("Check", on_click=self.check).props("no-caps outline").classes("q-mt-sm")
        with panel("Plan"):
            self._result = ui.element("div")
        with self._result:
            ui.label("Not checked yet.").classes("dim")

    @property
    def max_parallelism(self) -> int | None:
        """The number of key groups, also for state that has another one; None: the pipeline's, for such state only."""
        return None if self._groups.value is None else int(self._groups.value)

    async def check(self) -> Checked:
        """Checks and plans the text, and shows the result."""
        number = None if self._parallelism.value is None else int(self._parallelism.value)
        text, overrides, groups = self._text.value, self._overrides.value or "", self.max_parallelism
        result = await self._access.compute(lambda: checked(text, overrides, number, max_parallelism=groups))
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
