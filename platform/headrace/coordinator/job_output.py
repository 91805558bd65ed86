"""The OutputService of a coordinator: finds the job that is meant and hands it to the tool that is asked for."""

from __future__ import annotations

from collections.abc import Callable

from headrace.client.output_models import EndTransactionsRequest, TransactionList
from headrace.coordinator.held_job import HeldJob, ToolHosts
from headrace.coordinator.job_transactions import JobTransactions
from headrace.core.clock import Clock


class JobOutput:
    """`coordinator.output_service.OutputService`. `find`: the job that a reference means; raises NoSuchJob."""

    def __init__(self, find: Callable[[str], HeldJob], clock: Clock) -> None:
        self._find = find
        hosts = ToolHosts()
        self._transactions = JobTransactions(hosts, clock)

    async def transactions(self, reference: str) -> TransactionList:
        """What a job has open outside."""
        return await self._transactions.look(self._find(reference))

    async def end_transactions(self, reference: str, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts."""
        return await self._transactions.end(self._find(reference), request)
