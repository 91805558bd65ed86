"""The tabs about a job's output and its state: open transactions, dead letters, the audit, rows of state. Brokers and
storage are asked when a user wants it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui import ui

from headrace.client.http import Client
from headrace.client.models import JobStatus
from headrace.client.output_models import DeadLettersRequest
from headrace.client.state_models import StateQuery
from headrace.core.errors import ExternalError, HeadraceError
from headrace.ui.pages.elements.panels import Table, column, panel
from headrace.ui.polling.cluster_access import ClusterAccess
from headrace.ui.views.cluster_view import Row
from headrace.ui.views.job_view import (
    LETTERS_SHOWN,
    STORED_COLUMNS_ON_PHONES,
    STORED_ROWS_SHOWN,
    audit_rows,
    letter_rows,
    open_transaction_rows,
    readable_states,
    state_rows,
    stored_rows,
    transaction_rows,
)

_OPEN = (
    column("sink", "Sink"),
    column("subtask", "Subtask", number=True),
    column("state", "State"),
    column("age", "Age", number=True),
    column("name", "Transaction", phone=False),
)
_AT_BROKERS = (
    column("sink", "Sink"),
    column("state", "State"),
    column("age", "Age", number=True),
    column("safe", "Safe"),
    column("why", "Why", phone=False),
    column("holds", "Holds back", phone=False),
)
_LETTERS = (
    column("node", "Node"),
    column("at", "At (UTC)", phone=False),
    column("origin", "Record"),
    column("reason", "Reason"),
    column("value", "Value", phone=False),
    column("bytes", "Size", number=True, phone=False),
)
_AUDIT = (
    column("sink", "Sink"),
    column("verdict", "Verdict"),
    column("rows", "Rows", number=True),
    column("expected", "Expected", number=True),
    column("epoch", "Checkpoint", number=True, phone=False),
    column("reasons", "Reasons", phone=False),
)

_STATES = (
    column("node", "Node"),
    column("state", "State", phone=False),
    column("rows", "Rows", number=True),
    column("memory", "Memory", number=True),
    column("disk", "Local files", number=True, phone=False),
    column("storage", "Storage", number=True, phone=False),
    column("growth", "Growth/h", number=True),
    column("dropped", "Dropped", phone=False),
)


class JobTransactions:
    """Made in the current slot."""

    def __init__(self, access: ClusterAccess, job: str) -> None:
        with panel("Open transactions, as the job's slots report them"):
            self._open = Table(_OPEN, "name", nothing="None is open.")
        with panel("As the brokers have them"):
            Answer(
                access,
                "Ask the brokers",
                lambda client: transaction_rows(client.transactions(job)),
                _AT_BROKERS,
                key="name",
            )

    def show(self, status: JobStatus | None) -> None:
        """Shows what the job's slots report."""
        if status is not None:
            self._open.show(open_transaction_rows(status))


class JobDeadLetters:
    """Made in the current slot."""

    def __init__(self, access: ClusterAccess, job: str) -> None:
        request = DeadLettersRequest(limit=LETTERS_SHOWN)
        with panel(f"The newest {LETTERS_SHOWN} dead letters of each sink"):
            Answer(
                access, "Read them", lambda client: letter_rows(client.dead_letters(job, request)), _LETTERS, key="id"
            )


class JobAudit:
    """Made in the current slot."""

    def __init__(self, access: ClusterAccess, job: str) -> None:
        with panel("Audit"):
            ui.label("Reads the output back and compares it with the rows that the job wrote. It may take minutes.")
            Answer(access, "Run the audit", lambda client: _audited(client, job), _AUDIT, key="sink")


class JobState:
    """Each state by place, and rows of the newest checkpoint. Made in the current slot."""

    def __init__(self, access: ClusterAccess, job: str) -> None:
        self._access = access
        self._job = job
        with panel("State by place"):
            self._places = Table(_STATES, "id", nothing="No state is known yet.")
        with panel("Rows of the newest checkpoint"):
            with ui.row().classes("q-gutter-xs items-center"):
                self._select = ui.select({}, label="Rows of").props("dense outlined").style("min-width:180px")
                self._key = ui.input("Key, such as shop=south").props("dense outlined")
                self._button = ui.button("Read rows", on_click=self._read).props("no-caps outline")
            self._text = ui.label("Not read yet.").classes("q-my-sm")
            self._rows = Table((), "id", nothing="")
        self._button.disable()

    def show(self, status: JobStatus | None) -> None:
        """Shows what the job's slots report, and what its newest checkpoint has."""
        if status is None:
            return
        self._places.show(state_rows(status))
        readable = readable_states(status)
        if readable != self._select.options:
            chosen = self._select.value
            self._select.set_options(readable, value=chosen if chosen in readable else next(iter(readable), None))
            self._button.set_enabled(bool(readable))

    async def _read(self) -> None:
        node, _, state = str(self._select.value).partition("/")
        key = tuple(each.strip() for each in self._key.value.split(",") if each.strip())
        query = StateQuery(node, state or None, key, STORED_ROWS_SHOWN)
        self._button.disable()
        self._text.classes(remove="wrong").text = "Reading .."
        try:
            found = stored_rows(await self._access.act(lambda client: client.state_rows(self._job, query)))
        except HeadraceError as error:
            self._text.classes(add="wrong").text = str(error)
        else:
            self._text.text = found.text
            self._rows.element.columns = [
                dict(column(name, label, phone=number < STORED_COLUMNS_ON_PHONES))
                for number, (name, label) in enumerate(found.columns)
            ]
            self._rows.show(found.rows)
        finally:
            self._button.enable()


class Answer:
    """A button, and the table of what the coordinator answers. Made in the current slot."""

    def __init__(
        self,
        access: ClusterAccess,
        verb: str,
        read: Callable[[Client], Sequence[Row]],
        columns: Sequence[Row],
        *,
        key: str,
    ) -> None:
        self._access = access
        self._read = read
        self._button = ui.button(verb, on_click=self._ask).props("no-caps outline")
        self._text = ui.label("Not asked yet.").classes("q-my-sm")
        self._table = Table(columns, key, nothing="")

    async def _ask(self) -> None:
        self._button.disable()
        self._text.classes(remove="wrong").text = "Asking .."
        try:
            rows = await self._access.act(self._read)
        except HeadraceError as error:
            self._text.classes(add="wrong").text = str(error)
        else:
            self._text.text = f"{len(rows)} found."
            self._table.show(rows)
        finally:
            self._button.enable()


def _audited(client: Client, job: str) -> Sequence[Row]:
    done = client.wait_trigger(client.audit(job))
    if done.audit is None:
        raise ExternalError(f"the audit of job {job} has ended without a report")
    return audit_rows(done.audit)
