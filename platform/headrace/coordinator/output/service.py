"""What a coordinator can be asked for about the output of its jobs: the seam between REST and what does the work.

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
        """What a job has open outside, and what may be done with it."""
        ...

    async def end_transactions(self, reference: str, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts what may be, or says what it would do."""
        ...

    async def dead_letters(self, reference: str, request: DeadLettersRequest) -> DeadLetterList:
        """The newest dead letters of a job."""
        ...

    async def redrive(self, reference: str, request: RedriveRequest) -> Redriven:
        """Sends dead letters again, or says which it would."""
        ...

    async def audit(self, reference: str) -> Trigger:
        """Reads the output of a job back and compares it with what the job wrote. Returns at once."""
        ...
