"""Routes of the REST API about what jobs have put out: open transactions."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter

from headrace.client.output_models import EndTransactionsRequest, TransactionList
from headrace.coordinator.output_service import OutputService


def output_routes(output: Callable[[], OutputService]) -> APIRouter:
    """The router. `output` is called for each request."""
    router = APIRouter(tags=["output"])

    @router.get("/jobs/{job}/transactions", operation_id="transactions")
    async def transactions(job: str) -> TransactionList:
        """What a job has open outside, and what may safely be done with it."""
        return await output().transactions(job)

    @router.post("/jobs/{job}/transactions", operation_id="end_transactions")
    async def end_transactions(job: str, body: EndTransactionsRequest) -> TransactionList:
        """Commit or abort what a job that does not run has open; without `yes`: say what would be done."""
        return await output().end_transactions(job, body)

    return router
