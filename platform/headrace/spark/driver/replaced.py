"""The error of a driver whose job another one has taken over."""

from __future__ import annotations

from headrace.core.errors import ExternalError


class ReplacedError(ExternalError):
    """Another driver writes the job's journal. number: the record that shows it."""

    def __init__(self, job: str, number: int) -> None:
        super().__init__(
            f"another driver runs {job} now (record {number} of its journal is not this one's)",
            remedy="let that one go on, or end it and give the command again",
        )
