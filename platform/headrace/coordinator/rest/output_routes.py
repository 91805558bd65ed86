"""Routes of the REST API for the output of jobs: open transactions, audits, dead letters."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter

from headrace.client.models import Trigger
from headrace.client.output_models import (
    DeadLetterList,
    DeadLettersRequest,
    EndTransactionsRequest,
    Redriven,
    RedriveRequest,
    TransactionList,
)
from headrace.coordinator.output.service import OutputService


def output_routes(output: Callable[[], OutputService]) -> APIRouter:
    """Returns the router. `output` is called for each request."""
    router = APIRouter(tags=["output"])

    @router.get("/jobs/{job}/transactions", operation_id="transactions")
    async def transactions(job: str) -> TransactionList:
        """Open transactions of a job, and what may safely be done with each."""
        return await output().transactions(job)

    @router.post("/jobs/{job}/transactions", operation_id="end_transactions")
    async def end_transactions(job: str, body: EndTransactionsRequest) -> TransactionList:
        """Commit or abort open transactions of a job that does not run; without `yes`: report what would be done."""
        return await output().end_transactions(job, body)

    @router.post("/jobs/{job}/audit", operation_id="audit", status_code=202)
    async def audit(job: str) -> Trigger:
        """Read the output of a job back and compare it with the rows that the job committed."""
        return await output().audit(job)

    @router.post("/jobs/{job}/dead-letters", operation_id="dead_letters")
    async def dead_letters(job: str, body: DeadLettersRequest) -> DeadLetterList:
        """The newest dead letters of a job."""
        return await output().dead_letters(job, body)

    @router.post("/jobs/{job}/dead-letters/redrive", operation_id="redrive")
    async def redrive(job: str, body: RedriveRequest) -> Redriven:
        """Send dead letters again, each once; without `yes`: only report which would be sent."""
        return await output().redrive(job, body)

    return router
