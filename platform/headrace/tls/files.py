"""The TLS files of a process, and the flags and variables that name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError

CERT_VARIABLE, KEY_VARIABLE, CA_VARIABLE = "HEADRACE_TLS_CERT", "HEADRACE_TLS_KEY", "HEADRACE_TLS_CA"


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
