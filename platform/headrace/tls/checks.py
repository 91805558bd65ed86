"""Validates a process's TLS files before it starts: otherwise its peers would reject them later, with less detail."""

from __future__ import annotations

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
        # no handshake takes more round trips than that
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
