"""The election of a cluster that several hosts run, each from a home of its own."""

from __future__ import annotations

import secrets
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from headrace.core.network.hosts import LOOPBACK


class Election(BaseModel):
    """The flags of a coordinator with standbys (`headrace coordinator`), and of the workers that follow its leader.

    url       of the election
    ledger    URL of the shared ledger; None: as the election names it
    key_file  of the shared ledger
    host      name or address by which other hosts reach this one; its processes listen there
    tag       part of the ids of this host's workers, so that no other host has them
    """

    model_config = ConfigDict(frozen=True)

    url: str
    ledger: str | None = None
    key_file: Path | None = None
    host: str = LOOPBACK
    tag: str = Field(default_factory=lambda: secrets.token_hex(3))

    @property
    def coordinator_arguments(self) -> tuple[str, ...]:
        """The coordinator's flags."""
        ledger = () if self.ledger is None else ("--ledger", self.ledger)
        key = () if self.key_file is None else ("--key-file", str(self.key_file))
        return ("--election", self.url, *ledger, *key)

    def same_cluster(self, other: Election) -> bool:
        """Whether both name the same cluster and host."""
        return self.model_copy(update={"tag": other.tag}) == other
