"""The credentials of workers' containers, as they are now: tokens and certificates change while a cluster runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from headrace.deployment.yarn.secrets.certificates import ClusterCertificates
from headrace.yarn.container import FILE_SECRET
from headrace.yarn.records import Credentials


class WorkerCredentials:
    """Called by threads that start containers. secrets: of every worker, by alias; certificates: None: no TLS."""

    def __init__(self, secrets: Mapping[str, bytes], certificates: ClusterCertificates | None) -> None:
        self._secrets = secrets
        self._certificates = certificates
        self._lock = threading.Lock()
        self._tokens = b""

    def replace_tokens(self, storage: bytes) -> None:
        """Containers that are started from now on get these tokens, in place of the application's first ones."""
        with self._lock:
            self._tokens = storage

    def __call__(self, host: str) -> Credentials:
        """Those of a container. host: of its node; empty: for tokens alone."""
        with self._lock:
            tokens = self._tokens
        if self._certificates is None or not host:
            return Credentials(self._secrets, tokens)
        own = {f"{FILE_SECRET}{name}": content for name, content in self._certificates.issue([host]).items()}
        return Credentials({**self._secrets, **own}, tokens)
