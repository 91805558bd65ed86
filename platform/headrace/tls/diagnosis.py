"""Diagnoses failed TLS connections: only one side speaks TLS, or a certificate is rejected.

For messages only: probe connections carry no data.
"""

from __future__ import annotations

import socket
import ssl

from headrace.tls.contexts import peer_context
from headrace.tls.files import TlsFiles

PROBE_SECONDS = 2.0


def speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS server answers at this address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_SECONDS) as sock,
            context.wrap_socket(sock, server_hostname=host),
        ):
            return True
    except OSError:
        return False


def handshake_trouble(host: str, port: int, files: TlsFiles) -> str | None:
    """The reason why either side rejects the other's certificate; None: a handshake shows none."""
    context = peer_context(files)
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_SECONDS) as sock,
            context.wrap_socket(sock, server_hostname=host) as secure,
        ):
            # a gRPC server sends first; it closes without data if it rejects the certificate
            if not secure.recv(1):
                return _not_accepted(files, "it ends the connection")
    except ssl.SSLCertVerificationError as error:
        reason = f"its certificate is not valid here ({error.verify_message})"
        return f"{reason}: the authority {files.ca} has to have signed it, for its time and this address"
    except ssl.SSLError as error:
        refused = alert_of(error)
        return refused and _not_accepted(files, refused)
    except OSError:
        return None
    return None


def _not_accepted(files: TlsFiles, how: str) -> str:
    remedy = "the peer's authority has to have signed it, and it may not have expired"
    return f"it does not accept the certificate {files.cert} ({how}): {remedy}"


def alert_of(error: ssl.SSLError) -> str | None:
    """The peer's TLS alert about our certificate; None: there is none."""
    reason = error.reason or ""
    return reason.lower().replace("_", " ") if "ALERT" in reason else None


def is_plain_answer(text: str) -> bool:
    """Whether this TLS error means that the peer does not speak TLS."""
    return "WRONG_VERSION_NUMBER" in text or "wrong version number" in text
