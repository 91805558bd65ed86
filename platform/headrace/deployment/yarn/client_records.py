"""What this host knows of clusters on YARN: their secrets, and how they are found.

    <home>/yarn/<name>/token           of workers and clients
                       key             of the ledger: without it a cluster of that name cannot go on with its jobs
                       application     the id of the application that was started last

Each file has mode 0600. Another host's clients need HEADRACE_TOKEN.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.client.token_files import ensure_token
from headrace.client.yarn_clusters import APPLICATION, TOKEN_FILE, yarn_clusters
from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder
from headrace.core.files.replaced_file import replace_file
from headrace.core.settings import Home

KEY_FILE = "key"


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """The folder of one cluster."""

    folder: Path

    @staticmethod
    def of(home: Home, name: str) -> ClientRecord:
        """Of a cluster's name. Creates nothing."""
        return ClientRecord(yarn_clusters(home) / name)

    @property
    def key_file(self) -> Path:
        """The file with the ledger's key."""
        return self.folder / KEY_FILE

    def token(self) -> str:
        """The cluster's token, made at random if there is none. Raises UserError."""
        make_private_folder(self.folder)
        return ensure_token(self.folder / TOKEN_FILE)

    def key(self) -> str:
        """The ledger's key, made at random if there is none. Raises UserError."""
        make_private_folder(self.folder)
        return ensure_token(self.key_file)

    def started(self, application: str) -> None:
        """Records the application."""
        replace_file(self.folder / APPLICATION, f"{application}\n".encode(), mode=PRIVATE_FILE)

    def delete(self) -> None:
        """Forgets the cluster."""
        shutil.rmtree(self.folder, ignore_errors=True)
