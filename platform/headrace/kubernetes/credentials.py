"""The contract of credentials, and what both kinds of them share: the extra that they need, sockets, TLS."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.errors import UserError

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
