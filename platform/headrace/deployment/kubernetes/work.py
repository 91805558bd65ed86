"""The work of a cluster that serves one job, or the program of an application. Pure.

A Secret holds the work for the cluster's attendant, because a pipeline file may hold secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest

PROGRAM = "--program"
"""The option of `headrace attend` that names the program of an application."""
WORK_FOLDER = "/etc/headrace/work"
SECRET_BYTES_MAX = 1_000_000
"""A Secret holds 1 MiB with all of its fields."""
_REQUEST = "job.json"


@dataclass(frozen=True, slots=True)
class Work:
    """One job or application.

    files      name -> content, in `WORK_FOLDER` of the attendant's container
    arguments  of `headrace attend`
    """

    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def has_program(self) -> bool:
        """Whether it is an application: a program of the user, which runs in the cluster's pods."""
        return PROGRAM in self.arguments

    def __post_init__(self) -> None:
        size = sum(map(len, self.files.values()))
        if size > SECRET_BYTES_MAX:
            raise UserError(
                f"the job with its code has {size:,} bytes, and a Secret of Kubernetes holds {SECRET_BYTES_MAX:,}",
                remedy="put the code into the image, or submit to a cluster that runs (--mode session)",
            )


def job_work(request: SubmitRequest) -> Work:
    """The work of a cluster that serves one job. Raises UserError for one that is too large."""
    return Work(("--request", f"{WORK_FOLDER}/{_REQUEST}"), {_REQUEST: request.model_dump_json().encode()})
