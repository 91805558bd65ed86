"""The description of a cluster on YARN: the file for `headrace cluster start --target yarn`. Data and its
checks only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.core.config import Duration, FileModel
from headrace.core.errors import UserError
from headrace.deployment.description import described, read_document
from headrace.yarn.records import ContainerSize

CLUSTER_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z")
"""A part of a tag, which YARN writes in lower case."""
ENVIRONMENT_LINK = "environment"
"""The folder of a container in which the environment is unpacked."""
_MEMORY = re.compile(r"(\d+)\s*(Mi|M|m|Gi|G|g)\Z")
_REPLACED = set('"`$\\\n') | {"{{", "<CPS>"}
"""In values of variables: a shell of the node, or YARN, would replace them."""


def _memory(text: str) -> str:
    found = _MEMORY.match(text)
    if found is None or not int(found[1]):
        raise ValueError(f"{text!r} is no amount of memory: write such as 512Mi or 2Gi")
    return text


def _value(text: str) -> str:
    if any(part in text for part in _REPLACED):
        raise ValueError(f"{text!r} holds a character that the shell of a node replaces: put it into a file")
    return text


Memory = Annotated[
    str, AfterValidator(_memory), Field(json_schema_extra={"pattern": "^" + _MEMORY.pattern.replace(r"\Z", "$")})
]
VariableValue = Annotated[str, AfterValidator(_value)]


def memory_mb(text: str) -> int:
    """MiB of such an amount."""
    found = _MEMORY.match(text)
    assert found is not None, "the model has checked it"
    return int(found[1]) * (1 if found[2].lower().startswith("m") else 1024)


class CoordinatorContainer(FileModel):
    """The container of the ApplicationMaster, which is the coordinator."""

    memory: Memory = Field(default="1Gi", description="of its container; with its JVM, which takes 120 MB")
    vcores: int = Field(default=1, ge=1, description="of its container")
    attempts: int = Field(default=5, ge=1, description="ApplicationMasters that may fail; the cluster may allow fewer")
    attempts_validity_ms: Duration | None = Field(
        default=3_600_000, gt=0, alias="attemptsValidity", description="only failures of so long ago count; none: all"
    )


class WorkerContainers(FileModel):
    """The containers of workers: as many as jobs need, within limits."""

    slots: int = Field(default=1, ge=1, le=256, description="slots of each worker")
    minimum: int = Field(default=0, ge=0, alias="min", description="workers that stay without a job")
    maximum: int = Field(default=10, ge=1, alias="max", description="the most workers")
    idle_ms: Duration = Field(default=60_000, gt=0, alias="idle", description="released after so long without a job")
    memory: Memory = Field(default="2Gi", description="of each container; YARN kills one that uses more")
    vcores: int = Field(default=1, ge=1, description="of each container")
    node_label: str | None = Field(default=None, alias="nodeLabel", description="of their nodes; none: the queue's")
    priority: int = Field(default=1, ge=0, description="of the requests for them")

    @property
    def provisioning(self) -> ProvisioningConfig:
        """As the coordinator's configuration. Raises UserError for limits that do not fit together."""
        return ProvisioningConfig(self.slots, self.minimum, self.maximum, idle_ms=self.idle_ms)

    @property
    def size(self) -> ContainerSize:
        """Of each container."""
        return ContainerSize(memory_mb(self.memory), self.vcores)


class KerberosLogin(FileModel):
    """By which the ApplicationMaster obtains new tokens for as long as the cluster runs."""

    principal: str = Field(min_length=1, description="such as flights@EXAMPLE.ORG")
    keytab: str = Field(min_length=1, description="a key table here, which only the coordinator's container gets")


class YarnSpec(FileModel):
    """A cluster of headrace on YARN."""

    ledger: str = Field(
        min_length=1, description="URL of storage that all nodes reach: jobs, and checkpoints by default"
    )
    checkpoints: str | None = Field(default=None, description="URL of checkpoint storage; none: in the ledger")
    queue: str = Field(default="default", min_length=1, description="of the application")
    priority: int = Field(default=0, ge=0, description="of the application in its queue")
    tags: list[str] = Field(default_factory=list, description="of the application, beside that of the cluster's name")
    node_label: str | None = Field(default=None, alias="nodeLabel", description="of the coordinator's node")
    staging: str | None = Field(
        default=None, description="URL of the folder for what is shipped; none: .headraceStaging of the user's home"
    )
    environment: str | None = Field(
        default=None, description="archive of a Python environment (.tar.gz, .zip): a path here, or the URL of one"
    )
    python: str | None = Field(
        default=None, description="the interpreter: a path on all nodes; none: bin/python of the environment"
    )
    coordinator: CoordinatorContainer = Field(default_factory=CoordinatorContainer)
    workers: WorkerContainers = Field(default_factory=WorkerContainers)
    after_end_ms: Duration = Field(
        default=10_000, ge=0, alias="afterEnd", description="a cluster of one job answers so long after the job's end"
    )
    tls: bool = Field(
        default=False, description="between processes and to clients, by certificates of the cluster's own"
    )
    kerberos: KerberosLogin | None = Field(
        default=None, description="login of the coordinator; none: tokens last as long as the file system allows"
    )
    env: dict[str, VariableValue] = Field(default_factory=dict, description="variables of every process; no secrets")
    secrets: list[str] = Field(
        default_factory=list, description="variables of this command that processes get by YARN's credentials"
    )
    files: list[str] = Field(default_factory=list, description="files here that are put into each container's folder")
    archives: list[str] = Field(
        default_factory=list, description="archives here, unpacked in each container in a folder of their name"
    )

    @model_validator(mode="after")
    def _has_python(self) -> YarnSpec:
        if self.environment is None and self.python is None:
            raise ValueError("which Python runs is not given: write environment: ARCHIVE, or python: PATH")
        return self

    @model_validator(mode="after")
    def _sends_tokens_by_tls(self) -> YarnSpec:
        if self.kerberos is not None and not self.tls:
            raise ValueError("workers are sent new tokens by TLS only: add tls: true to kerberos")
        return self

    @property
    def interpreter(self) -> str:
        """The program of the containers."""
        return self.python or f"{ENVIRONMENT_LINK}/bin/python"


@dataclass(frozen=True, slots=True)
class YarnCluster:
    """A cluster of headrace on YARN. is_own: it serves one job or application, and ends with it."""

    name: str
    spec: YarnSpec
    is_own: bool = False

    def __post_init__(self) -> None:
        if not CLUSTER_NAME.match(self.name):
            raise UserError(
                f"{self.name!r} is no name of a cluster on YARN",
                remedy="write at most 40 lower-case letters, digits and '-', beginning with a letter",
            )

    @property
    def ledger(self) -> str:
        """The URL of its ledger: a cluster of its own has a folder in the described one."""
        base = self.spec.ledger.rstrip("/")
        return f"{base}/{self.name}" if self.is_own else base


def read_yarn_file(path: Path) -> YarnSpec:
    """The description in a file. Raises UserError with every problem and its place in the file."""
    spec = described(YarnSpec, read_document(path), str(path))
    try:
        _ = spec.workers.provisioning
    except UserError as error:
        raise UserError(f"{path}: workers: {error.message}", remedy=error.remedy) from error
    return spec
