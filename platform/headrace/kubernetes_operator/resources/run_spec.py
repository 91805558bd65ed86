"""What determines a job, taken from a HeadraceJob at one moment and kept in its status. Pure."""

from __future__ import annotations

import hashlib
import json

from pydantic import Field

from headrace.spec.model import FileModel

_DIGEST_CHARACTERS = 16


class RunSpec(FileModel):
    """A job as it is submitted. Two of them with the same `job_key` are the same job.

    pipeline       text of the pipeline file
    cluster        name of the cluster that runs it
    variables      name of the Secret with the values of its variables; None: it has none
    restart_nonce  a change of it restarts the job
    """

    pipeline: str
    cluster: str
    variables: str | None = None
    parallelism: int | None = None
    allow_dropped_state: bool = Field(default=False, alias="allowDroppedState")
    accept_new_topics: tuple[str, ...] = Field(default=(), alias="acceptNewTopics")
    restart_nonce: int = Field(default=0, alias="restartNonce")

    @property
    def job_key(self) -> str:
        """Differs from that of a spec which needs another job. What only a submission needs does not count."""
        return _digest(self.model_dump(exclude={"allow_dropped_state", "accept_new_topics"}))

    @property
    def digest(self) -> str:
        """Differs from that of a spec which is worth another try."""
        return _digest(self.model_dump())


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARACTERS]
