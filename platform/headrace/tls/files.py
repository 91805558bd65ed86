"""The TLS files of a process: the flags and variables that name them, their replacement, and names of servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError

CERT_VARIABLE, KEY_VARIABLE, CA_VARIABLE = "HEADRACE_TLS_CERT", "HEADRACE_TLS_KEY", "HEADRACE_TLS_CA"
NAME_VARIABLE = "HEADRACE_TLS_NAME"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one process.

    cert  its certificate, followed by intermediate ones
    key   the certificate's private key, without a password
    ca    the authorities that sign the certificates of all processes of the cluster
    """

    cert: Path
    key: Path
    ca: Path

    def arguments(self) -> tuple[str, ...]:
        """Flags that name these files."""
        return ("--tls-cert", str(self.cert), "--tls-key", str(self.key), "--tls-ca", str(self.ca))


def tls_files(cert: Path | None, key: Path | None, ca: Path | None) -> TlsFiles | None:
    """The named files, as absolute paths; None: no TLS. Raises UserError if some are missing.

    An authority alone is not TLS: clients name only that.
    """
    if cert is None and key is None:
        return None
    if cert is None or key is None or ca is None:
        missing = [
            f"--tls-{name} or {variable}"
            for name, variable, path in (
                ("cert", CERT_VARIABLE, cert),
                ("key", KEY_VARIABLE, key),
                ("ca", CA_VARIABLE, ca),
            )
            if path is None
        ]
        raise UserError("TLS takes a certificate, its key and the authority", remedy=f"give {' and '.join(missing)}")
    return TlsFiles(cert.absolute(), key.absolute(), ca.absolute())


def tls_authority(environment: Mapping[str, str]) -> Path | None:
    """The authority that a client trusts, if one is named."""
    named = environment.get(CA_VARIABLE)
    return Path(named).absolute() if named else None


class FileVersion:
    """The version of files that a process has read: a mounted Secret replaces its files.

    Not thread-safe: two threads may both see one change.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._paths = (files.cert, files.key, files.ca)
        self._read = self._now()

    def has_changed(self) -> bool:
        """Whether they have been replaced since the last call. Files that are gone have not been replaced yet."""
        now = self._now()
        if now is None or now == self._read:
            return False
        self._read = now
        return True

    def _now(self) -> tuple[tuple[int, int], ...] | None:
        try:
            found = [path.stat() for path in self._paths]
        except OSError:
            return None
        return tuple((each.st_ino, each.st_mtime_ns) for each in found)


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server that a client identifies by authority and name, whatever address it dials.

    authority  PEM text of the certificates that the client trusts
    name       the name that the server's certificate must contain
    """

    authority: str
    name: str


def named_authority(environment: Mapping[str, str]) -> Path | NamedServer | None:
    """The authority that a client trusts, for servers of the name HEADRACE_TLS_NAME if that is set. Raises
    UserError."""
    authority = tls_authority(environment)
    name = environment.get(NAME_VARIABLE)
    if authority is None or not name:
        return authority
    try:
        return NamedServer(authority.read_text(), name)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the authority {authority} cannot be read: {error}") from error
