"""The configuration of a coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.client.discovery import token_file
from headrace.coordinator.leading.resources import ResourcesConfig
from headrace.coordinator.store.shared_ledger import SharedLedger
from headrace.core.errors import UserError
from headrace.core.network.hosts import LOOPBACK, host_port
from headrace.core.settings import Home
from headrace.tls.files import TlsFiles

_WILDCARDS = {"0.0.0.0", "::", ""}


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """The configuration of a coordinator. Port 0 means any free port.

    token_file           file with the token of workers and clients. None: the shared ledger's, else the home's file,
                         created if it is missing
    metrics_token_file   file with the token for health and metrics. None: as for token_file
    tls                  TLS files of REST and of the control server. None: neither is encrypted
    election             URL of the election (`leadership.opening`). None: there is no other coordinator
    ledger               the shared ledger. None: it is in the home
    advertise            host name or address by which clients, workers and standbys reach this one. None: `host`
    resources            where workers come from. None: others start them
    """

    home: Path
    host: str = LOOPBACK
    port: int = 0
    grpc_port: int = 0
    token_file: Path | None = None
    metrics_token_file: Path | None = None
    tls: TlsFiles | None = None
    election: str | None = None
    ledger: SharedLedger | None = None
    advertise: str | None = None
    resources: ResourcesConfig | None = None

    def __post_init__(self) -> None:
        if self.election is not None and self.advertise is None and self.host in _WILDCARDS:
            raise UserError(
                f"a coordinator that listens at {self.host} has no address that it could publish",
                remedy="give --advertise HOST: the name by which other hosts reach this one",
            )

    @property
    def shown_token_file(self) -> Path:
        """The file with the token that this host's clients read."""
        return self.token_file or token_file(Home(self.home))

    def address(self, port: int) -> str:
        """HOST:PORT as others reach this coordinator."""
        return host_port(self.advertise or self.host, port)

    def url(self, port: int) -> str:
        """The URL of its REST API, as others reach it."""
        return self._url(self.address(port))

    def own_url(self, port: int) -> str:
        """The URL of its REST API on this host."""
        return self._url(host_port(self.host, port))

    def _url(self, address: str) -> str:
        return f"{'http' if self.tls is None else 'https'}://{address}"
