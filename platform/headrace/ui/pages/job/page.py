"""The page of a job. Each tab has an address of its own: only the open one is built and read."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from headrace.ui.pages.elements.frame import Frame
from headrace.ui.pages.elements.live import Live
from headrace.ui.pages.job.checkpoints import JobCheckpoints
from headrace.ui.pages.job.exceptions import JobExceptions
from headrace.ui.pages.job.job_frame import JobFrame
from headrace.ui.pages.job.log_tail import JobLogTail
from headrace.ui.pages.job.output import JobAudit, JobDeadLetters, JobTransactions
from headrace.ui.pages.job.overview import JobOverview
from headrace.ui.polling.operations import Operations
from headrace.ui.polling.poller import Poller
from headrace.ui.polling.wanted import Topic, Want


def job_pages(poller: Poller, operations: Operations) -> None:
    """Registers the pages of jobs."""

    @ui.page("/jobs/{job}")
    async def overview(job: str) -> None:
        frame, live = Frame(poller, job, "/"), Live(poller)
        head = JobFrame(operations, job, "")
        body = JobOverview(live, job)

        def refresh() -> None:
            frame.refresh()
            head.show(body.status(), poller.error(body.status_want()))
            body.show(body.status())

        await live.follow(refresh, body.status_want())

    @ui.page("/jobs/{job}/{tab}")
    async def other(job: str, tab: str) -> None:
        frame, live = Frame(poller, job, "/"), Live(poller)
        status = Want(Topic.STATUS, job)
        head = JobFrame(operations, job, tab)
        show, *wants = _tab(poller, job, tab)

        def refresh() -> None:
            frame.refresh()
            head.show(poller.status(job, None), poller.error(status, *wants))
            show()

        await live.follow(refresh, status, *wants)


def _tab(poller: Poller, job: str, tab: str) -> tuple[Callable[[], None], *tuple[Want, ...]]:
    """Builds a tab: how it is drawn anew, and the documents that it wants beside the status."""
    access = poller.access
    match tab:
        case "checkpoints":
            checkpoints = JobCheckpoints()
            return lambda: checkpoints.show(poller.checkpoints(job)), Want(Topic.CHECKPOINTS, job)
        case "exceptions":
            exceptions = JobExceptions()
            return lambda: exceptions.show(poller.exceptions(job)), Want(Topic.EXCEPTIONS, job)
        case "transactions":
            transactions = JobTransactions(access, job)
            return (lambda: transactions.show(poller.status(job, None)),)
        case "dead-letters":
            JobDeadLetters(access, job)
        case "audit":
            JobAudit(access, job)
        case "log":
            return (JobLogTail(access, job).show,)
        case _:
            ui.label(f"There is no page {tab!r} of a job.").classes("wrong")
    return (lambda: None,)
