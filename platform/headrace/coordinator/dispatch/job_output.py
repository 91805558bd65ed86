"""The OutputService of a coordinator: resolves the job reference and calls the tool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from headrace.client.models import Trigger
from headrace.client.output_models import (
    DeadLetterList,
    DeadLettersRequest,
    EndTransactionsRequest,
    Redriven,
    RedriveRequest,
    TransactionList,
)
from headrace.coordinator.dispatch.triggers import Triggers
from headrace.coordinator.output.job_audit import JobAudit
from headrace.coordinator.output.job_handle import HeldJob, ToolHosts
from headrace.coordinator.output.job_transactions import JobTransactions
from headrace.core.clock import Clock
from headrace.core.errors import HeadraceError
from headrace.processes.spawning import Starter
from headrace.rpc.failure import failure_of

LOG = logging.getLogger("headrace.coordinator")


class JobOutput:
    """Implements `coordinator.rest.service.OutputService`.

    find      resolves a reference; raises JobNotFoundError
    starter   starts connector hosts; by default each is a fresh interpreter
    """

    def __init__(
        self, find: Callable[[str], HeldJob], triggers: Triggers, clock: Clock, starter: Starter | None = None
    ) -> None:
        self._find = find
        self._triggers = triggers
        self._tasks: set[asyncio.Task[None]] = set()
        self._hosts = ToolHosts(starter=starter)
        self._audit = JobAudit(self._hosts)
        self._transactions = JobTransactions(self._hosts, clock)

    async def transactions(self, reference: str) -> TransactionList:
        """Returns a job's open transactions."""
        return await self._transactions.look(self._find(reference))

    async def end_transactions(self, reference: str, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts open transactions."""
        return await self._transactions.end(self._find(reference), request)

    async def dead_letters(self, reference: str, request: DeadLettersRequest) -> DeadLetterList:
        """Returns the newest dead letters of a job."""
        held = self._find(reference)
        async with self._hosts.empty(held) as host:
            return await host.letters(held.pipeline, request)

    async def redrive(self, reference: str, request: RedriveRequest) -> Redriven:
        """Resends dead letters, or lists which it would resend."""
        held = self._find(reference)
        async with self._hosts.empty(held) as host:
            return await host.resend(held.pipeline, request)

    async def audit(self, reference: str) -> Trigger:
        """Begins an audit. Returns its trigger, which the client polls."""
        held = self._find(reference)
        trigger = self._triggers.begin(held.job, "audit")
        task = asyncio.create_task(self._run_audit(held, trigger.trigger_id), name=f"audit of job {held.job}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return trigger

    async def _run_audit(self, held: HeldJob, trigger_id: str) -> None:
        try:
            report = await self._audit.run(held, partial(self._triggers.progress, trigger_id))
        except HeadraceError as error:
            self._triggers.answer(trigger_id, None, failure_of(error))
        except Exception as error:
            LOG.exception("the audit of job %s failed", held.job)
            self._triggers.answer(trigger_id, None, failure_of(error))
        else:
            self._triggers.audited(trigger_id, report)

    async def close(self) -> None:
        """Cancels the audits in progress, which end their processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
