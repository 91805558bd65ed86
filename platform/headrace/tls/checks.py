"""Validates a process's TLS files before it starts, and diagnoses TLS connections that fail later.

Without the check, peers reject the files with less detail. The diagnosis finds that only one side uses TLS, or that one
side rejects the other's certificate. It serves messages only: its probe connections carry no data.
"""

from __future__ import annotations

import socket
import ssl
import stat
from pathlib import Path

from headrace.core.errors import UserError
from headrace.tls.contexts import peer_context, server_context
from headrace.tls.files import TlsFiles, tls_files


def checked_files(cert: Path | None, key: Path | None, ca: Path | None) -> TlsFiles | None:
    """The files that flags or variables name, validated; None: no TLS. Raises UserError."""
    files = tls_files(cert, key, ca)
    if files is not None:
        check(files)
    return files


def check(files: TlsFiles) -> None:
    """Raises UserError for a missing file, a key that belongs to another certificate or that all users can read, and a
    certificate that peers do not accept: expired, of another authority, or not for servers and clients."""
    for name, path in (("certificate", files.cert), ("key", files.key), ("authority", files.ca)):
        _require_readable(name, path)
    if files.key.stat().st_mode & stat.S_IRWXO:
        raise UserError(f"every user of this host can read the key {files.key}", remedy=f"chmod o= {files.key}")
    _handshake_with_itself(files)


def _require_readable(name: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise UserError(f"the TLS {name} {path} cannot be read: {error.strerror}") from error


def _handshake_with_itself(files: TlsFiles) -> None:
    """A handshake with both ends in memory: each verifies the certificate as peers will."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = peer_context(files)
    # host names are verified by callers, which know the address
    calling.check_hostname = False
    ends = (
        calling.wrap_bio(to_client, to_server),
        server_context(files).wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        # no handshake needs more round trips
        for _ in range(5):
            for end in ends:
                _step(end)
    except ssl.SSLCertVerificationError as error:
        raise UserError(
            f"the certificate {files.cert} is not valid: {error.verify_message}",
            remedy=f"it has to be signed by {files.ca}, in its time, and for servers and clients",
        ) from error
    except ssl.SSLError as error:
        raise UserError(f"{files.cert} does not work: {error.reason}") from error


def _step(end: ssl.SSLObject) -> None:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return


# ---- diagnosis of a failed connection --------------------------------------------------------------------------------

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
