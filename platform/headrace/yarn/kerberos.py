"""Login of a JVM with Hadoop's client to Kerberos, and the delegation tokens that it then obtains for other processes.

    HEADRACE_KERBEROS_PRINCIPAL, HEADRACE_KERBEROS_KEYTAB    of commands; without them, `kinit` has made a ticket
    KRB5_CONFIG, KRB5CCNAME                                  as for every program

The Kerberos of the JVM needs no library of the system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace.core.errors import UserError
from headrace.yarn.conversions import items, token_storage
from headrace.yarn.jvm import Jvm
from headrace.yarn.refusals import refusals

PRINCIPAL_VARIABLE, KEYTAB_VARIABLE = "HEADRACE_KERBEROS_PRINCIPAL", "HEADRACE_KERBEROS_KEYTAB"


@dataclass(frozen=True, slots=True)
class KeytabLogin:
    """principal: such as `flights@EXAMPLE.ORG`; keytab: the file with its key."""

    principal: str
    keytab: Path


def login_of(environment: Mapping[str, str]) -> KeytabLogin | None:
    """The login that variables name; None: by the ticket cache. Raises UserError if one of them is missing."""
    principal, keytab = environment.get(PRINCIPAL_VARIABLE), environment.get(KEYTAB_VARIABLE)
    if not principal and not keytab:
        return None
    if not principal or not keytab:
        missing = KEYTAB_VARIABLE if principal else PRINCIPAL_VARIABLE
        raise UserError(f"{missing} is not set", remedy="set both, or neither to use the ticket of `kinit`")
    return KeytabLogin(principal, Path(keytab))


def is_secured(jvm: Jvm) -> bool:
    """Whether the cluster requires Kerberos."""
    with jvm.calls():
        information = jvm.java.org.apache.hadoop.security.UserGroupInformation
        information.setConfiguration(jvm.conf)
        return bool(information.isSecurityEnabled())


def log_in(jvm: Jvm, login: KeytabLogin) -> None:
    """Logs the JVM in, unless the cluster requires no Kerberos. Raises UserError without the file, ExternalError."""
    if not login.keytab.is_file():
        raise UserError(f"there is no key table {login.keytab}", remedy="correct keytab, or HEADRACE_KERBEROS_KEYTAB")
    if is_secured(jvm):
        with refusals(jvm, f"the login of {login.principal}"):
            information = jvm.java.org.apache.hadoop.security.UserGroupInformation
            information.loginUserFromKeytab(login.principal, str(login.keytab.absolute()))


# ---- delegation tokens of file systems -------------------------------------------------------------------------------

_SCHEMES = frozenset({"hdfs", "webhdfs", "swebhdfs", "viewfs"})
"""File systems of Hadoop that give tokens. Headrace reaches others without Hadoop."""


@dataclass(frozen=True, slots=True)
class ObtainedTokens:
    """storage: as in a token storage file; until_ms: epoch ms, when the first one expires, unless its renewer renews
    it; ends_ms: when it expires although it is renewed. None: there are no tokens."""

    storage: bytes = field(repr=False)
    until_ms: int | None
    ends_ms: int | None


def with_tokens(urls: Iterable[str | None]) -> tuple[str, ...]:
    """Those URLs whose file system gives tokens, each once."""
    return tuple(dict.fromkeys(url for url in urls if url is not None and urlsplit(url).scheme in _SCHEMES))


def obtain_tokens(jvm: Jvm, urls: Iterable[str], renewer: str | None = None) -> ObtainedTokens:
    """Obtains a token of each file system. renewer: a principal; None: this user, who renews each once to learn when it
    expires. Raises ExternalError."""
    with refusals(jvm, "the request for delegation tokens"):
        hadoop = jvm.java.org.apache.hadoop
        user = hadoop.security.UserGroupInformation.getLoginUser()
        credentials = hadoop.security.Credentials()
        for url in urls:
            system = hadoop.fs.Path(url).getFileSystem(jvm.conf)
            system.addDelegationTokens(renewer or user.getShortUserName(), credentials)
        tokens = items(credentials.getAllTokens())
        ends = [int(token.decodeIdentifier().getMaxDate()) for token in tokens]
        until = [int(token.renew(jvm.conf)) for token in tokens] if renewer is None else ends
        return ObtainedTokens(token_storage(jvm, credentials), min(until, default=None), min(ends, default=None))


def resource_manager_principal(jvm: Jvm) -> str:
    """The principal that renews the tokens of applications. Raises ExternalError if the settings name none."""
    with refusals(jvm, "yarn.resourcemanager.principal"):
        utilities: Any = jvm.java.org.apache.hadoop.yarn.client.util.YarnClientUtils
        return str(utilities.getRmPrincipal(jvm.conf))
