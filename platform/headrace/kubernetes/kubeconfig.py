"""Credentials of a kubeconfig. The official client reads the files, calls credential plugins (`exec`), renews tokens
and finds proxies; the rest of it is not used."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.core.errors import UserError
from headrace.kubernetes.credentials import DEFAULT_NAMESPACE, needs_library, socket_options, tls_context

if TYPE_CHECKING:
    from urllib3 import PoolManager


class Settings(Protocol):
    """What is used of the official client's `Configuration`."""

    host: str
    verify_ssl: bool
    ssl_ca_cert: str | None
    cert_file: str | None
    key_file: str | None
    connection_pool_maxsize: int
    socket_options: object

    def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """The value of the header `Authorization`."""
        ...


@dataclass(frozen=True, slots=True)
class KubeconfigAccess:
    """files: as in KUBECONFIG, separated by colons; context: None: the current one."""

    files: str
    context: str | None = None

    def read(self) -> KubeconfigCredentials:
        """Reads the files, and calls the credential plugin that they name. Raises UserError."""
        with needs_library():
            from kubernetes.client import Configuration
            from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger
        settings = Configuration()
        # the client writes keys that stand in the kubeconfig to files, which a process that is killed would leave
        with tempfile.TemporaryDirectory(prefix="headrace-kubernetes-") as folder:
            try:
                merged = KubeConfigMerger(self.files)
                if merged.config is None:
                    raise UserError(f"there is no kubeconfig at {self.files}", remedy="set KUBECONFIG")
                loader = KubeConfigLoader(
                    merged.config,
                    self.context,
                    config_base_path=None,
                    config_persister=merged.save_changes,
                    temp_file_path=folder,
                )
                loader.load_and_set(settings)
                return KubeconfigCredentials(settings, _namespace(loader.current_context), _tls(settings))
            except UserError:
                raise
            except Exception as error:
                # the client checks no types: a text in the place of a list ends in an error of any kind
                reason = " ".join(str(error).split())
                raise UserError(f"the kubeconfig at {self.files} cannot be used: {reason}") from error


class KubeconfigCredentials:
    """tls: None: the server is addressed by http."""

    def __init__(self, settings: Settings, namespace: str, tls: ssl.SSLContext | None) -> None:
        self._settings = settings
        self.namespace = namespace
        self._tls = tls

    @property
    def host(self) -> str:
        """URL of the API server."""
        return self._settings.host

    def authorization(self) -> str | None:
        """The token; None: a client certificate, or nothing."""
        return self._settings.get_api_key_with_prefix("BearerToken")

    def pool(self, connections_max: int) -> PoolManager:
        """Connections, by the proxy that kubeconfig or environment name."""
        from kubernetes.client.rest import RESTClientObject

        self._settings.connection_pool_maxsize = connections_max
        self._settings.socket_options = socket_options()
        pool: PoolManager = RESTClientObject(self._settings).pool_manager
        options = pool.connection_pool_kw
        # their files are gone; `tls` has what was in them
        for key in ("ca_certs", "cert_file", "key_file", "ca_cert_data"):
            options.pop(key, None)
        options["block"] = True
        if self._tls is not None:
            options["ssl_context"] = self._tls
        return pool


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.host.startswith("https:"):
        return None
    context = tls_context(settings.ssl_ca_cert, settings.cert_file, settings.key_file)
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _namespace(context: object) -> str:
    """The namespace of a kubeconfig's context."""
    inner = context.get("context") if isinstance(context, Mapping) else None
    named = inner.get("namespace") if isinstance(inner, Mapping) else None
    return str(named) if named else DEFAULT_NAMESPACE
