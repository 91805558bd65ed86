"""`ssl` contexts. Between processes of a cluster both sides present a certificate of the cluster's authority."""

from __future__ import annotations

import logging
import ssl
from hashlib import sha256
from pathlib import Path

from headrace.core.errors import UserError
from headrace.tls.files import FileVersion, NamedServer, TlsFiles

LOG = logging.getLogger("headrace.tls")


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """For a process that other processes of the cluster call: it requires their certificate. Raises UserError."""
    context = _with_certificate(ssl.PROTOCOL_TLS_SERVER, files)
    _trust(context, files.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def rest_context(files: TlsFiles) -> ssl.SSLContext:
    """For a server whose clients present a token and no certificate. It reads replaced files again. Raises
    UserError."""
    context = _with_certificate(ssl.PROTOCOL_TLS_SERVER, files)
    context.sni_callback = _Replacing(files, context)
    return context


def peer_context(files: TlsFiles) -> ssl.SSLContext:
    """For a process that calls another one of the cluster. Raises UserError."""
    context = _with_certificate(ssl.PROTOCOL_TLS_CLIENT, files)
    _trust(context, files.ca)
    return context


def client_context(authority: Path | NamedServer | None) -> ssl.SSLContext:
    """For a client: trusts this authority, or those of the system. Raises UserError."""
    if authority is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if isinstance(authority, NamedServer):
        try:
            context.load_verify_locations(cadata=authority.authority)
        except ssl.SSLError as error:
            raise UserError(f"the authority of {authority.name} holds no certificate") from error
    else:
        _trust(context, authority)
    return context


def fingerprint(certificate: bytes) -> str:
    """SHA-256 fingerprint of a certificate in DER form, in hex."""
    return sha256(certificate).hexdigest()


def own_fingerprint(files: TlsFiles) -> str:
    """Fingerprint of the certificate that a process presents."""
    text = files.cert.read_text()
    begin, end = text.index(ssl.PEM_HEADER), text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
    return fingerprint(ssl.PEM_cert_to_DER_cert(text[begin:end]))


class _Replacing:
    """Called by OpenSSL at the beginning of each handshake: sets the context with the newest files.

    Another context, because a context that fails to load a certificate has lost its previous one.
    """

    def __init__(self, files: TlsFiles, context: ssl.SSLContext) -> None:
        self._files = files
        self._newest = context
        self._version = FileVersion(files)

    def __call__(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._version.has_changed():
            try:
                self._newest = _with_certificate(ssl.PROTOCOL_TLS_SERVER, self._files)
            except UserError as error:
                LOG.warning("the TLS files that replace the earlier ones do not work: %s", error)
        connection.context = self._newest


def _with_certificate(protocol: int, files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # without a password callback OpenSSL prompts at the terminal
        context.load_cert_chain(files.cert, files.key, password=_no_password)
    except _PasswordWantedError as error:
        raise UserError(
            f"the key {files.key} is encrypted", remedy="write it without a password, readable by its owner only"
        ) from error
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UserError(
                f"the key {files.key} is not that of the certificate {files.cert}", remedy="name the two that match"
            ) from error
        raise UserError(f"{files.cert} and {files.key} are no certificate and key: {_reason(error)}") from error
    except OSError as error:
        raise UserError(f"{files.cert} or {files.key} cannot be read: {error}") from error
    return context


def _trust(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise UserError(f"{authority} holds no certificate of an authority: {_reason(error)}") from error
    except OSError as error:
        raise UserError(f"the authority {authority} cannot be read: {error}") from error


class _PasswordWantedError(Exception):
    """The key is encrypted."""


def _no_password() -> str:
    raise _PasswordWantedError


def _reason(error: ssl.SSLError) -> str:
    return error.reason or str(error)
