"""Flags of commands that start processes which speak TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TlsCert = Annotated[
    Path | None,
    typer.Option("--tls-cert", envvar="HEADRACE_TLS_CERT", metavar="FILE", help="Certificate, in PEM form, for TLS."),
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", envvar="HEADRACE_TLS_KEY", metavar="FILE", help="Key of the certificate.")
]
TlsCa = Annotated[
    Path | None,
    typer.Option("--tls-ca", envvar="HEADRACE_TLS_CA", metavar="FILE", help="Authority that signs all certificates."),
]
