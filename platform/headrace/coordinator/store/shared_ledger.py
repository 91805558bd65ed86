"""Where coordinators share their ledger, and the key that encrypts what is secret in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.checkpoint.paths import joined
from headrace.core.errors import UserError
from headrace.leadership.opening import shared_folder


@dataclass(frozen=True, slots=True)
class SharedLedger:
    """A ledger that several coordinators share.

    url       folder or object store that all of them reach; it may hold checkpoints
    key_file  file with the key that encrypts submissions and tokens: the same key on each host
    storage   URL of checkpoint storage; None: in the ledger's folder
    """

    url: str
    key_file: Path
    storage: str | None = None

    @property
    def checkpoints(self) -> str:
        """URL of the checkpoint storage of jobs whose pipeline names none."""
        return self.storage or joined(self.url, "checkpoints")


def shared_ledger(election: str | None, url: str | None, key_file: Path | None) -> SharedLedger | None:
    """The ledger that the options name. By default that of an election in a folder is in the same folder, with its key.

    Raises UserError if an option is missing.
    """
    if url is None and election is not None and election.startswith("file:"):
        url = str(shared_folder(election))
    if url is None:
        if election is None and key_file is None:
            return None
        raise UserError(
            "where coordinators share their ledger is not given",
            remedy="give --ledger URL: a folder that all hosts mount, s3://bucket/prefix or hdfs://namenode/path",
        )
    if key_file is None:
        if "://" in url and not url.startswith("file:"):
            raise UserError(
                "the key of the shared ledger is not given",
                remedy="give --key-file FILE with the same random text on each host: submissions are encrypted with it",
            )
        key_file = Path(url if "://" not in url else shared_folder(url)) / "key"
    return SharedLedger(url, key_file)
