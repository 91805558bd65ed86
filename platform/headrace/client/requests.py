"""The requests of the REST API (`/v1`): the documents that clients send.

Data only: coordinator, HTTP client, command line and Python API share the models and their JSON. A request rejects
unknown fields, so that a misspelt field is an error. `client.models` has the answers.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Literal

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field

from headrace.core.config import FileForm
from headrace.core.source_state import AppliedFloor

CODE_BYTES_MAX = 128 * 1024 * 1024
"""Size limit of all code of a submission, before encoding."""
CODE_ENDINGS = (".py", ".zip", ".whl", ".egg", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
"""File name endings of code."""


class Request(BaseModel):
    """Base of the documents that clients send."""

    # a pipeline with secrets may be in it, and errors are logged
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class CodeArchive(Request):
    """A piece of the user's code that travels with a job.

    name      file name without folders: .py, .zip, .whl and .egg are put on the import path as they are, .tar (.gz,
              .bz2, .xz; .tgz) is unpacked and its folder put there
    content   the file's bytes, base64 in JSON
    """

    name: str = Field(pattern=rf"^\w[\w. +-]*({'|'.join(re.escape(end) for end in CODE_ENDINGS)})$", max_length=200)
    content: Base64Bytes

    @property
    def kind(self) -> Literal["import", "archive"]:
        """Whether the code is imported in place, or unpacked first."""
        return "archive" if ".tar" in self.name or self.name.endswith(".tgz") else "import"

    @staticmethod
    def of(name: str, content: bytes) -> CodeArchive:
        """An archive of plain bytes."""
        return CodeArchive(name=name, content=base64.b64encode(content))


class SubmitRequest(Request):
    """A job to run. Its name is the pipeline's.

    pipeline             the file form (`Pipeline.to_dict`), with secrets: the coordinator stores it and never shows it
    parallelism          replaces the pipeline's own; nodes that set one keep theirs
    allow_duplicate      submit although a job of that name runs
    from_savepoint       path or URL of a savepoint or checkpoint to start from
    claim                the job owns its files (default: the first checkpoint copies them, and they stay the user's)
    take_over            start although it is the checkpoint of a job that may still run
    allow_dropped_state  start although it has state that fits no node
    allow_drained        start although time had advanced to its end before it was taken
    allow_lost_output    start although its last output may not be visible
    accepted_topics      topics that may be other ones than it has positions in: they begin as new ones
    max_parallelism      replaces the pipeline's own; state written with another one is read whole and hashed anew
    renames              node of the savepoint -> node of this pipeline
    floors               floors of an earlier run, to produce the same rows again
    python_path          folders of the cluster's hosts, on the import path after `code`
    code                 first on the import path, in this order
    mode                 session: on this cluster
    key                  names this submission: sent again, it returns the job of the first time, run or ended
    """

    pipeline: FileForm
    parallelism: int | None = Field(default=None, ge=1)
    allow_duplicate: bool = False
    from_savepoint: str | None = None
    claim: bool = False
    take_over: bool = False
    allow_dropped_state: bool = False
    allow_drained: bool = False
    allow_lost_output: bool = False
    accepted_topics: tuple[str, ...] = ()
    max_parallelism: int | None = Field(default=None, ge=1)
    renames: dict[str, str] = {}
    floors: tuple[AppliedFloor, ...] = ()
    python_path: tuple[str, ...] = ()
    code: tuple[CodeArchive, ...] = ()
    mode: Literal["session", "per-job", "application"] = "session"
    key: str | None = Field(default=None, min_length=1, max_length=200)

    def file_form(self) -> dict[str, Any]:
        """The pipeline to run, with the requested parallelism and number of key groups."""
        asked = {"parallelism": self.parallelism, "max_parallelism": self.max_parallelism}
        return {**self.pipeline, **{name: value for name, value in asked.items() if value is not None}}


class ResubmitRequest(Request):
    """Run a job's own definition again as a new job, from this savepoint: the way back of an upgrade.

    key  names this request: sent again, it returns the job of the first time, run or ended
    """

    from_savepoint: str
    key: str | None = Field(default=None, min_length=1, max_length=200)


class SavepointRequest(Request):
    """Take a savepoint. directory: folder or URL under which its own folder is made; None: the coordinator's."""

    directory: str | None = None


STOP_WITHIN_LEAST_MS = 1_000
STOP_WITHIN_MOST_MS = 86_400_000
"""A day: a stop has a bound."""


class StopRequest(Request):
    """Stop with a last epoch. savepoint: as `directory` of a SavepointRequest; None: only a last checkpoint is kept.

    drain      the watermark goes to its end first, so that every window fires
    within_ms  the job ends within this time, at its last complete checkpoint if it takes no other one; None: 60 s
    """

    savepoint: str | None = None
    drain: bool = False
    within_ms: int | None = Field(default=None, ge=STOP_WITHIN_LEAST_MS, le=STOP_WITHIN_MOST_MS)


class RescaleRequest(Request):
    """Continue with another parallelism (nodes that set one keep theirs)."""

    parallelism: int = Field(ge=1)
