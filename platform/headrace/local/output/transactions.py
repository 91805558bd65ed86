"""Open transactions of all Headrace jobs on some brokers, inspected from this host.

A coordinator that knows the job judges and ends its transactions. Those of unknown jobs are judged here. The connector
is found by its name; this module imports none of its classes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from headrace.client.discovery import connect
from headrace.client.http import Client
from headrace.client.output_models import EndTransactionsRequest, TransactionInfo, TransactionList
from headrace.connect.registry import connector
from headrace.connect.sink import Committer, OpenTransaction, SinkContext
from headrace.coordinator.output.job_transactions import transaction_info
from headrace.coordinator.output.transaction_safety import UNKNOWN, Action, judged, planned
from headrace.core.errors import ExternalError, UnreachableError, UserError
from headrace.core.types import Schema

CONNECTOR = "kafka"


class BrokerTransactions:
    """The open transactions on some brokers; a context manager."""

    def __init__(self, committer: Committer, client: Client | None) -> None:
        self._committer = committer
        self._client = client

    @classmethod
    def open(cls, brokers: str, properties: Mapping[str, str], coordinator: str | None) -> BrokerTransactions:
        """Connects. `coordinator`: URL of the coordinator that knows jobs; None: the default one, if it answers."""
        return cls(_committer(brokers, properties), _client(coordinator))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._committer.close()
        if self._client is not None:
            self._client.close()

    def look(self) -> TransactionList:
        """Returns all open transactions of Headrace. Raises HeadraceError."""
        found = self._committer.open_transactions()
        states = self._states()
        infos: list[TransactionInfo] = []
        for job in sorted({there.job for there in found} & states.keys()):
            assert self._client is not None
            infos += self._client.transactions(job).transactions
        infos += [_unknown(there) for there in found if there.job not in states]
        note = None if self._client is not None else "no coordinator answers: nothing is known of the jobs"
        return TransactionList(transactions=tuple(infos), note=note)

    def end(self, request: EndTransactionsRequest) -> TransactionList:
        """Ends what may be ended: of known jobs by their coordinator, of others here, by force only. Raises
        HeadraceError.
        """
        found = self._committer.open_transactions()
        missing = sorted(set(request.names) - {there.name for there in found})
        if missing:
            raise UserError(f"no transaction of that name is open: {', '.join(missing)}")
        states = self._states()
        known = sorted({there.job for there in found} & states.keys())
        parts = [self._end_known(job, [there for there in found if there.job == job], request) for job in known]
        parts.append(self._end_unknown([there for there in found if there.job not in states], request))
        return TransactionList(
            transactions=tuple(each for part in parts for each in part.transactions),
            note="; ".join(part.note for part in parts if part.note) or None,
        )

    def _end_known(self, job: str, found: list[OpenTransaction], request: EndTransactionsRequest) -> TransactionList:
        assert self._client is not None
        own = tuple(there.name for there in found if there.name in request.names)
        now = self._client.transactions(job)
        if request.names and not own:
            return TransactionList(transactions=())
        if not request.names and not any(request.action in {each.safe, each.by_force} for each in now.transactions):
            return now
        return self._client.end_transactions(job, request.model_copy(update={"names": own}))

    def _end_unknown(self, found: list[OpenTransaction], request: EndTransactionsRequest) -> TransactionList:
        wanted = Action.COMMIT if request.action == "commit" else Action.ABORT
        pairs = [(there, judged(there, UNKNOWN)) for there in found]
        plan = planned(wanted, pairs, request.names, force=request.force)
        if request.names and plan.refused:
            listed = ", ".join(there.name for there in plan.refused)
            raise UserError(
                f"it is not safe to {request.action} {listed}: no job here knows it",
                remedy="ask the coordinator of its cluster; --force aborts it",
            )
        if request.yes and plan.chosen:
            self._committer.fence([there.name for there in plan.chosen])
        done = "aborted" if request.yes else None
        chosen = {there.name for there in plan.chosen}
        infos = tuple(_unknown(there, done if there.name in chosen else None) for there, _ in pairs)
        note = None
        if plan.chosen:
            note = f"{len(plan.chosen)} of unknown jobs " + (
                "are aborted" if request.yes else "would be aborted; --yes does it"
            )
        elif pairs:
            note = f"{len(pairs)} of unknown jobs are left alone"
        return TransactionList(transactions=infos, note=note)

    def _states(self) -> dict[str, str]:
        """Returns job -> state, for all jobs of the coordinator."""
        return {} if self._client is None else {each.job_id: each.state for each in self._client.jobs()}


def _unknown(there: OpenTransaction, done: str | None = None) -> TransactionInfo:
    now_ms = int(time.time() * 1000)
    return transaction_info(there, judged(there, UNKNOWN), state=None, now_ms=now_ms, done=done)


def _committer(brokers: str, properties: Mapping[str, str]) -> Committer:
    """Returns a committer for all jobs: it belongs to no pipeline's sink, so only brokers and login matter."""
    sink = connector(CONNECTOR).sink
    assert sink is not None, f"connector {CONNECTOR} has no sink"
    fields = {"brokers": brokers, "topic": "none", "delivery": "exactly-once", "properties": dict(properties)}
    context = SinkContext(job="", node="", subtask=0, parallelism=1, schema=Schema(()))
    committer = sink.model_validate(fields).open_committer(context)
    if committer is None:
        raise ExternalError(f"connector {CONNECTOR} has no transactions")
    return committer


def _client(url: str | None) -> Client | None:
    try:
        client = connect(url)
        client.health()
    except UnreachableError:
        if url is not None:
            raise
        return None
    return client
