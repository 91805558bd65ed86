"""The certificates of a cluster on YARN. Its authority is made with the first start, and stays in the client's home.

    client            authority and its key
    coordinator       the same, by YARN's credentials; issues its own certificate, and one for each worker
    worker            the authority, and the certificate for its node

A worker's certificate has to hold the name of its node, which is known once YARN has granted the container.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from headrace.core.files.private_files import PRIVATE_FILE
from headrace.core.files.replaced_file import replace_file
from headrace.tls.files import TlsFiles
from headrace.tls.issuing import KeyPair, is_due, issued
from headrace.yarn.container import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, CERTIFICATE_KEY


class ClusterCertificates:
    """Issues certificates in the ApplicationMaster's container. Thread-safe. folder: of its secrets, with the authority
    and its key; name: of the cluster."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._authority = KeyPair((folder / AUTHORITY).read_text(), (folder / AUTHORITY_KEY).read_text())
        self._name = f"{name}.headrace"

    @property
    def files(self) -> TlsFiles:
        """Those of the coordinator, once they are `written`."""
        return tls_files(self._folder)

    def write(self, host: str) -> None:
        """Writes the coordinator's certificate. host: the name of its node."""
        for name, content in self.issue([host]).items():
            replace_file(self._folder / name, content, mode=PRIVATE_FILE)

    def is_due(self, host: str) -> bool:
        """Whether the coordinator's certificate, and with it those of workers, are to be issued anew."""
        return is_due((self._folder / CERTIFICATE).read_text(), [host], datetime.now(UTC))

    def issue(self, hosts: list[str]) -> Mapping[str, bytes]:
        """A new certificate and its key, as secrets by name. hosts: names of nodes on which it is used."""
        pair = issued(self._authority, [self._name, *hosts], datetime.now(UTC))
        # the key first: a reader in between finds two that do not belong together, and reads again
        return {CERTIFICATE_KEY: pair.key.encode(), CERTIFICATE: pair.certificate.encode()}


def tls_files(folder: Path) -> TlsFiles:
    """The files of a process. folder: of its secrets."""
    return TlsFiles(folder / CERTIFICATE, folder / CERTIFICATE_KEY, folder / AUTHORITY)
