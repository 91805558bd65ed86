"""Finds the API server and the credentials for it, in kubectl's order:

    1. the kubeconfig that the caller names, or the files that KUBECONFIG names
    2. ~/.kube/config
    3. in a pod: its service account (KUBERNETES_SERVICE_HOST, mounted token, CA and namespace)

`HEADRACE_KUBERNETES_CONTEXT` names a context of the kubeconfig other than its current one.

The official client reads kubeconfigs, calls credential plugins (`exec`), renews tokens and finds proxies; the rest of
it is not used. Its import costs 0.1 CPU seconds and 10 MiB, so a pod reads its three files without it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.core.errors import UserError
from headrace.core.network.hosts import host_port

if TYPE_CHECKING:
    from urllib3 import PoolManager


DEFAULT_NAMESPACE = "default"
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A connection whose peer is gone ends after 90 s, also if nothing is sent on it: a watch, a log."""


class Credentials(Protocol):
    """An API server and the right to talk to it, as read at one time."""

    @property
    def host(self) -> str:
        """URL of the API server."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace of the pod, or of the kubeconfig's context."""
        ...

    def authorization(self) -> str | None:
        """The header of this name. Renews a token that has expired, which may take time. Called by one thread at a
        time."""
        ...

    def pool(self, connections_max: int) -> PoolManager:
        """New connections to the server: at most so many, for another one the caller waits."""
        ...


@contextlib.contextmanager
def needs_library() -> Iterator[None]:
    """Raises UserError if a package of the extra, which is imported inside, is missing."""
    try:
        yield
    except ImportError as error:
        raise UserError(
            "Kubernetes needs the package kubernetes", remedy="pip install 'headrace[kubernetes]'"
        ) from error


def socket_options() -> Sequence[tuple[int, int, int]]:
    """Options of each connection. macOS lacks some of them."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    options += [
        (socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _KEEPALIVE if hasattr(socket, name)
    ]
    return options


def tls_context(authority: str | None, certificate: str | None = None, key: str | None = None) -> ssl.SSLContext:
    """For connections to the server. authority: file with its CA; None: those of the system. Raises OSError, and
    ValueError for a key that is encrypted."""
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # a cluster's own authority may lack extensions that Python 3.13 requires by default
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate is not None:
        # without a password callback OpenSSL prompts at the terminal
        context.load_cert_chain(certificate, key, password=_no_password)
    return context


def _no_password() -> str:
    raise ValueError("the client key is encrypted")


# ---- service account of a pod ----------------------------------------------------------------------------------------

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


# ---- kubeconfig ------------------------------------------------------------------------------------------------------


class Settings(Protocol):
    """The attributes of the official client's `Configuration` that are used."""

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


CONTEXT_VARIABLE = "HEADRACE_KUBERNETES_CONTEXT"


class Access(Protocol):
    """Reads credentials; again when the server does not accept them any more, because files may have been replaced."""

    def read(self) -> Credentials:
        """Raises UserError for a configuration that is wrong."""
        ...


def find_access(
    environment: Mapping[str, str], *, kubeconfig: Path | None = None, context: str | None = None
) -> Access:
    """The access that kubectl would use here. Raises UserError if there is none."""

    context = context or environment.get(CONTEXT_VARIABLE) or None
    files = str(kubeconfig) if kubeconfig is not None else environment.get("KUBECONFIG", "")
    if files:
        return KubeconfigAccess(files, context)
    home = environment.get("HOME")
    usual = Path(home) / ".kube" / "config" if home else None
    if usual is not None and usual.exists():
        return KubeconfigAccess(str(usual), context)
    if environment.get(HOST_VARIABLE):
        return PodAccess(environment)
    raise UserError(
        "no Kubernetes cluster is configured",
        remedy="set KUBECONFIG, or write ~/.kube/config; in a pod the service account is used",
    )
