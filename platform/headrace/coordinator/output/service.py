"""OutputService: the requests about the output of jobs; the interface between REST and its implementation.

References and errors are as in `coordinator.rest.service`.
"""

from __future__ import annotations

from typing import Protocol

from headrace.client.models import Trigger
from headrace.client.output_models import (
    DeadLetterList,
    DeadLettersRequest,
    EndTransactionsRequest,
    Redriven,
    RedriveRequest,
    TransactionList,
)


class OutputService(Protocol):
    """The output of a cluster's jobs, running or ended."""

    async def transactions(self, reference: str) -> TransactionList:
        """Returns a job's open transactions, with the actions that are safe for each."""
        ...

    async def end_transactions(self, reference: str, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts the transactions for which that is safe, or lists them."""
        ...

    async def dead_letters(self, reference: str, request: DeadLettersRequest) -> DeadLetterList:
        """Returns the newest dead letters of a job."""
        ...

    async def redrive(self, reference: str, request: RedriveRequest) -> Redriven:
        """Resends dead letters, or lists which it would resend."""
        ...

    async def audit(self, reference: str) -> Trigger:
        """Reads the output of a job back and compares it with what the job wrote. Returns at once."""
        ...
