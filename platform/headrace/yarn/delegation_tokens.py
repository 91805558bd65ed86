"""Delegation tokens of file systems. A process that is logged in to Kerberos obtains them; others use them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headrace.yarn.conversions import items, token_storage
from headrace.yarn.jvm import Jvm
from headrace.yarn.refusals import refusals

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
