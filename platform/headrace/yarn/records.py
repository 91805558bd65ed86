"""Records of YARN as Python values, which survive the JVM that received them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ResourceKind(StrEnum):
    """FILE: as it is; ARCHIVE: unpacked into a folder."""

    FILE = "FILE"
    ARCHIVE = "ARCHIVE"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that nodes copy into a container's folder. It must not change: YARN compares size and time.

    link: its name there; url: where it is; modified_ms: by the clock of its file system
    """

    link: str
    url: str
    size_bytes: int
    modified_ms: int
    kind: ResourceKind = ResourceKind.FILE


@dataclass(frozen=True, slots=True)
class ContainerSize:
    """memory_mb: in MiB; YARN rounds it up to the scheduler's steps."""

    memory_mb: int
    vcores: int


@dataclass(frozen=True, slots=True)
class Launch:
    """The command of a container, with its environment.

    command      words; one that begins with `$` is a variable of the node
    environment  values without `"`, backquotes and `$`, which a shell of the node would replace
    """

    command: tuple[str, ...]
    files: tuple[StagedFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of Hadoop."""

    identifier: bytes
    kind: str
    password: bytes
    service: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a container's processes, in addition to the tokens of the process that starts it.

    secrets  by alias (`yarn.container`)
    tokens   a token storage of Hadoop, whose tokens replace those of the same service; empty: none
    """

    secrets: Mapping[str, bytes] = field(repr=False)
    tokens: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Allocation:
    """A container that the ResourceManager grants. number: of the request (allocation request id)."""

    container: str
    number: int
    node: str
    http_address: str
    size: ContainerSize
    priority: int
    token: Token


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """A container that has ended. exit_code: below 0: by YARN; diagnostics: why, in YARN's words."""

    container: str
    exit_code: int
    diagnostics: str


@dataclass(frozen=True, slots=True)
class Headroom:
    """The resources that the application's queue has left for it."""

    memory_mb: int
    vcores: int


class FinalStatus(StrEnum):
    """How an application has ended. UNDEFINED: it has not."""

    UNDEFINED = "UNDEFINED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    KILLED = "KILLED"


LIVE_STATES = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")


@dataclass(frozen=True, slots=True)
class ApplicationReport:
    """An application, as the ResourceManager shows it. url: that the ApplicationMaster has registered, or empty;
    control: HOST:PORT that it has registered, or empty; attempt: number of the current one, from 1."""

    application: str
    name: str
    user: str
    queue: str
    tags: tuple[str, ...]
    state: str
    final_status: FinalStatus
    url: str
    control: str
    attempt: int
    diagnostics: str

    @property
    def is_live(self) -> bool:
        """Whether it has not ended."""
        return self.state in LIVE_STATES
