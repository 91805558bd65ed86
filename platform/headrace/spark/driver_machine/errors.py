"""Errors of drivers whose job another driver, a user or another job has continued or ended."""

from __future__ import annotations

from headrace.core.errors import ExternalError


class ReplacedError(ExternalError):
    """Another driver has written to the job's journal. number: the record that proves it."""

    def __init__(self, job: str, number: int) -> None:
        super().__init__(
            f"another driver runs {job} now (record {number} of its journal is not this one's)",
            remedy="let that one go on, or end it and give the command again",
        )


class GivenUpError(ExternalError):
    """The job was ended by a user or another job: decided output that is not published never will be."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"{job} was given up, or another job goes on from its checkpoint",
            remedy="give the command again to see what it can go on from",
        )
