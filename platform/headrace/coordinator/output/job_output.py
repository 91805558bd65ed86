"""The OutputService of a coordinator: finds the job that is meant and hands it to the tool that is asked for."""

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
    """`coordinator.output.service.OutputService`.

    find     the job that a reference means; raises NoSuchJob
    starter  starts connector hosts; else they are fresh interpreters
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
        """What a job has open outside."""
        return await self._transactions.look(self._find(reference))

    async def end_transactions(self, reference: str, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts."""
        return await self._transactions.end(self._find(reference), request)

    async def dead_letters(self, reference: str, request: DeadLettersRequest) -> DeadLetterList:
        """The newest dead letters of a job."""
        held = self._find(reference)
        async with self._hosts.empty(held) as host:
            return await host.letters(held.pipeline, request)

    async def redrive(self, reference: str, request: RedriveRequest) -> Redriven:
        """Sends dead letters again, or says which it would."""
        held = self._find(reference)
        async with self._hosts.empty(held) as host:
            return await host.resend(held.pipeline, request)

    async def audit(self, reference: str) -> Trigger:
        """Begins an audit."""
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
        """Gives up what is under way; its processes end with it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
