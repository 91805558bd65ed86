"""An application of YARN: its work, the file that describes it to the ApplicationMaster, and its containers' commands.

The client stages the file beside the code. It holds no secret: YARN's credentials hold the secrets, and the key of the
ledger encrypts a job's submission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.core.errors import ExternalError, UserError
from headrace.deployment.yarn.cluster_spec import YarnSpec
from headrace.deployment.yarn.secrets import tls_files
from headrace.resources.worker_order import WorkerOrder
from headrace.yarn.container import NODE_VARIABLE, TOKEN
from headrace.yarn.records import Launch, ResourceKind, StagedFile

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest


APPLICATION_FILE, REQUEST_FILE = "application.json", "job.sealed"
"""Their names in the container's folder."""
HADOOP_CONF_LINK = "hadoop-conf"
KEYTAB_LINK = "keytab"
"""The key table, which only the ApplicationMaster's container has."""


class WorkKind(StrEnum):
    """SESSION: jobs that clients submit; JOB: one job; PROGRAM: an application."""

    SESSION = "session"
    JOB = "job"
    PROGRAM = "program"


class ShippedFile(BaseModel):
    """A staged file, as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    link: str
    url: str
    size_bytes: int
    modified_ms: int
    kind: ResourceKind

    @staticmethod
    def of(file: StagedFile) -> ShippedFile:
        """From the value that YARN is asked with."""
        return ShippedFile(
            link=file.link, url=file.url, size_bytes=file.size_bytes, modified_ms=file.modified_ms, kind=file.kind
        )

    def staged(self) -> StagedFile:
        """Inverse of `of`."""
        return StagedFile(self.link, self.url, self.size_bytes, self.modified_ms, self.kind)


class ApplicationFile(BaseModel):
    """name, ledger, spec: of the cluster; files: of each worker's container; staging: the staging folder, deleted at
    the end; user: that the client has at YARN; program: with PROGRAM, its name in the container's folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    ledger: str
    spec: YarnSpec
    files: tuple[ShippedFile, ...]
    staging: str
    user: str
    work: WorkKind
    program: str | None = None


def read_application_file(path: Path) -> ApplicationFile:
    """The file. Raises ExternalError for one that is damaged, or of another version."""
    try:
        return ApplicationFile.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ExternalError(
            f"{path} does not describe an application: {error}",
            remedy="the Python environment of the nodes must have the same version of headrace as the client",
        ) from error


# ---- work ------------------------------------------------------------------------------------------------------------


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


# ---- commands of the containers --------------------------------------------------------------------------------------

BOOTSTRAP = ("-m", "headrace.yarn.container")
MASTER_MODULE, MASTER_ROLE = "headrace.deployment.yarn.application_master", "headrace-coordinator"
WORKER_SECRETS = "home/secrets"
"""The folder of a container's secrets (`yarn.container`)."""
_HADOOP_USER = "HADOOP_USER_NAME"


def master_launch(spec: YarnSpec, files: tuple[StagedFile, ...], user: str) -> Launch:
    """The container of the ApplicationMaster."""
    return Launch((spec.interpreter, *BOOTSTRAP, MASTER_MODULE, MASTER_ROLE), files, _environment(spec, user))


def worker_launch(application: ApplicationFile, order: WorkerOrder, worker: str) -> Launch:
    """The container of a worker. Its slots listen at the node's own address, unless all are on one host."""
    tls = None if order.tls is None else tls_files(Path(WORKER_SECRETS))
    own = replace(order, host=None, token_file=Path(WORKER_SECRETS) / TOKEN, tls=tls)
    command = (application.spec.interpreter, *BOOTSTRAP, "headrace", *own.arguments(worker))
    files = tuple(each.staged() for each in application.files)
    return Launch((*command, "--host", f"${NODE_VARIABLE}"), files, _environment(application.spec, application.user))


def _environment(spec: YarnSpec, user: str) -> Mapping[str, str]:
    # without Kerberos the name is all that file systems ask for
    own = {"HADOOP_CONF_DIR": HADOOP_CONF_LINK, _HADOOP_USER: user}
    # unpacked files are read-only
    return {**own, "PYTHONDONTWRITEBYTECODE": "1", **spec.env}
