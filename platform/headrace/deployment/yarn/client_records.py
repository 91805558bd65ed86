"""What this host knows of clusters on YARN: their secrets, and how they are found.

    <home>/yarn/<name>/token           of workers and clients
                       key             of the ledger: without it a cluster of that name cannot go on with its jobs
                       ca.crt, ca.key  the authority of its certificates, with TLS
                       application     the id of the application that was started last
                       own             of a cluster that ends with its job: the folder is deleted some time later

Each file has mode 0600. Another host's clients need HEADRACE_TOKEN.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace.client.token_files import ensure_token
from headrace.client.yarn_clusters import APPLICATION, AUTHORITY_FILE, TOKEN_FILE, yarn_clusters
from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder
from headrace.core.files.replaced_file import replace_file
from headrace.core.settings import Home
from headrace.tls.issuing import KeyPair, new_authority
from headrace.yarn.container import AUTHORITY_KEY

KEY_FILE, OWN = "key", "own"
OWN_KEPT = 20
"""Records of clusters of their own that stay after their end, so that `headrace logs` finds them by name."""


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

    def authority(self) -> KeyPair:
        """The authority of the cluster's certificates, made if there is none."""
        certificate, key = self.folder / AUTHORITY_FILE, self.folder / AUTHORITY_KEY
        make_private_folder(self.folder)
        if not certificate.exists():
            made = new_authority(f"authority of {self.folder.name}", datetime.now(UTC))
            replace_file(key, made.key.encode(), mode=PRIVATE_FILE)
            replace_file(certificate, made.certificate.encode(), mode=PRIVATE_FILE)
        return KeyPair(certificate.read_text(), key.read_text())

    def forget_authority(self) -> None:
        """Forgets it: the cluster that starts has no TLS."""
        for name in (AUTHORITY_FILE, AUTHORITY_KEY):
            (self.folder / name).unlink(missing_ok=True)

    def started(self, application: str, *, is_own: bool = False) -> None:
        """Records the application. is_own: its cluster ends with its job or program."""
        replace_file(self.folder / APPLICATION, f"{application}\n".encode(), mode=PRIVATE_FILE)
        if is_own:
            (self.folder / OWN).touch(PRIVATE_FILE)

    def application(self) -> str:
        """The application that was recorded last; empty: none."""
        file = self.folder / APPLICATION
        return file.read_text().strip() if file.exists() else ""

    def delete(self) -> None:
        """Forgets the cluster."""
        shutil.rmtree(self.folder, ignore_errors=True)


def old_own_records(home: Home) -> tuple[ClientRecord, ...]:
    """The records of clusters of their own, but for the `OWN_KEPT` newest."""
    marks = sorted(yarn_clusters(home).glob(f"*/{OWN}"), key=lambda mark: mark.stat().st_mtime)
    records = tuple(ClientRecord(mark.parent) for mark in marks[:-OWN_KEPT])
    return tuple(record for record in records if record.application())
