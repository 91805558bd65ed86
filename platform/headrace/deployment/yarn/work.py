"""What a cluster on YARN serves, if it is not a session: one job, or one program."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.errors import UserError
from headrace.deployment.yarn.application_file import WorkKind

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest


@dataclass(frozen=True, slots=True)
class Work:
    """request: of the job, which may hold secrets: it is staged encrypted; program: the file."""

    kind: WorkKind
    request: bytes = field(default=b"", repr=False)
    program: Path | None = None


SESSION = Work(WorkKind.SESSION)


def job_work(request: SubmitRequest) -> Work:
    """The work of a cluster that serves one job."""
    return Work(WorkKind.JOB, request.model_dump_json().encode())


def program_work(program: str) -> Work:
    """The work of a cluster that serves an application. Raises UserError."""
    file = Path(program)
    if file.suffix != ".py" or not file.is_file():
        raise UserError(
            f"{program} is no Python program", remedy="--mode application runs a .py file that submits jobs"
        )
    return Work(WorkKind.PROGRAM, program=file)
