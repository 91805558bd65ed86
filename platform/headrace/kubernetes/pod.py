"""Credentials of the pod that this process runs in: files that the kubelet mounts, read without the official client.

Its import costs 0.1 CPU seconds and 10 MiB in each process of a deployment; these are three files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.errors import UserError
from headrace.core.network.hosts import host_port
from headrace.kubernetes.credentials import DEFAULT_NAMESPACE, needs_library, socket_options, tls_context

if TYPE_CHECKING:
    import ssl

    from urllib3 import PoolManager

HOST_VARIABLE, PORT_VARIABLE = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REREAD_SECONDS = 60.0
"""The kubelet replaces the token when 80 % of its life are over, after an hour at most."""


@dataclass(frozen=True, slots=True)
class PodAccess:
    """The service account of the pod. environment: names the API server; folder: where the files are mounted."""

    environment: Mapping[str, str]
    folder: Path = SERVICE_ACCOUNT

    def read(self) -> PodCredentials:
        """Reads the files. Raises UserError."""
        host = host_port(self.environment[HOST_VARIABLE], int(self.environment.get(PORT_VARIABLE) or 443))
        try:
            namespace = (self.folder / "namespace").read_text().strip()
            tls = tls_context(str(self.folder / "ca.crt"))
            return PodCredentials(f"https://{host}", namespace or DEFAULT_NAMESPACE, tls, self.folder / "token")
        except OSError as error:
            raise UserError(
                f"the pod's service account in {self.folder} cannot be read: {error}",
                remedy="give the pod a service account, and do not set automountServiceAccountToken: false",
            ) from error


class PodCredentials:
    """Raises OSError if the token cannot be read."""

    def __init__(self, host: str, namespace: str, tls: ssl.SSLContext, token_file: Path) -> None:
        self.host = host
        self.namespace = namespace
        self._tls = tls
        self._token_file = token_file
        self._token = token_file.read_text().strip()
        self._read_s = time.monotonic()

    def authorization(self) -> str | None:
        """The token, which is read again every `REREAD_SECONDS`."""
        now_s = time.monotonic()
        if now_s - self._read_s >= REREAD_SECONDS:
            try:
                self._token = self._token_file.read_text().strip() or self._token
                self._read_s = now_s
            except OSError:
                pass  # the one that was read before is valid for minutes
        return f"Bearer {self._token}"

    def pool(self, connections_max: int) -> PoolManager:
        """Direct connections: a proxy that the environment names is for addresses outside of the cluster."""
        with needs_library():
            from urllib3 import PoolManager

        return PoolManager(
            num_pools=1, maxsize=connections_max, block=True, ssl_context=self._tls, socket_options=socket_options()
        )
