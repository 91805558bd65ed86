"""TLS between slots of different hosts: both present a certificate of the cluster's authority, and their proofs
(`handshake`) are bound to these two certificates.

Unix sockets are not encrypted: they do not leave the host, and only the owner of the slots can open them. The host name
that a caller connects to must be in the callee's certificate. For an IP address only the authority is checked, because
addresses of hosts change; the handshake proves that the callee is the intended slot.
"""

from __future__ import annotations

import socket
import ssl

from headrace.core.errors import ExternalError
from headrace.core.network.hosts import is_ip_address
from headrace.exchange.network.handshake import MAGIC, Channel
from headrace.tls.checks import is_plain_answer
from headrace.tls.contexts import fingerprint, own_fingerprint, peer_context, server_context
from headrace.tls.files import TlsFiles

_ALL_FLAGS = "give every worker of the cluster --tls-cert, --tls-key and --tls-ca"


class Encryption:
    """Both TLS roles of a slot. Raises UserError for invalid files."""

    def __init__(self, files: TlsFiles) -> None:
        self._serving = server_context(files)
        self._calling = peer_context(files)
        self._calling_addresses = peer_context(files)
        self._calling_addresses.check_hostname = False
        self._own = own_fingerprint(files)

    def called(self, sock: socket.socket) -> ssl.SSLSocket:
        """Wraps a caller's connection, before `answer`. Takes ownership of the socket."""
        return self._serving.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def answer(self, sock: ssl.SSLSocket, timeout_s: float) -> Channel:
        """The callee's TLS handshake. Raises OSError."""
        sock.settimeout(timeout_s)
        sock.do_handshake()
        return (_peer(sock), self._own)

    def call(self, sock: socket.socket, host: str, timeout_s: float) -> tuple[ssl.SSLSocket, Channel]:
        """The caller's TLS handshake; takes ownership of the socket. Raises ExternalError for a rejected certificate
        and a callee without TLS, OSError."""
        context = self._calling_addresses if is_ip_address(host) else self._calling
        sock.settimeout(timeout_s)
        try:
            secure = context.wrap_socket(sock, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            remedy = (
                "it has to be signed by the cluster's authority, in its time, and hold the name that it is called by"
            )
            raise ExternalError(f"its certificate is not valid: {error.verify_message}", remedy=remedy) from error
        except ssl.SSLError as error:
            if is_plain_answer(str(error)):
                raise ExternalError("it speaks no TLS", remedy=_ALL_FLAGS) from error
            raise
        return secure, (self._own, _peer(secure))


def is_plain_call(sock: socket.socket) -> bool:
    """Whether the caller's first bytes are a greeting without TLS. Waits for them; does not consume them. Raises
    OSError."""
    return sock.recv(len(MAGIC), socket.MSG_PEEK) == MAGIC


PLAIN_REFUSED = f"rows go by TLS here: {_ALL_FLAGS}"


def _peer(sock: ssl.SSLSocket) -> str:
    certificate = sock.getpeercert(binary_form=True)
    assert certificate is not None, "both contexts demand one"
    return fingerprint(certificate)
