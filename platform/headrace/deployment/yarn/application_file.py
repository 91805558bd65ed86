"""What an ApplicationMaster is started with: a file that the client has staged beside the code.

It holds no secret: those come by YARN's credentials, and a job's submission is encrypted with the key of the ledger.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.core.errors import ExternalError
from headrace.deployment.yarn.cluster_spec import YarnSpec
from headrace.yarn.records import ResourceKind, StagedFile

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
