"""A server that is known by an authority and a name, at whatever address it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError
from headrace.tls.files import tls_authority

NAME_VARIABLE = "HEADRACE_TLS_NAME"


@dataclass(frozen=True, slots=True)
class NamedServer:
    """authority: PEM text of the certificates that a client trusts; name: the one that the server's certificate must
    hold, also where the client dials another one."""

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
