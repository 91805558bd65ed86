"""The access of a client to a cluster on Kubernetes: the token and the authority, in the Secrets of its name.

    NAME-headrace  token; of a cluster of an earlier version: NAME
    NAME-tls       ca.crt; a cluster without TLS has none

Clients without rights to Secrets may use a cluster, too, if the user names both.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.kubernetes.connection import Connection, ForbiddenError, NotFoundError, open_connection
from headrace.kubernetes.documents import Collection, text_at
from headrace.kubernetes.ownership import Claim
from headrace.leadership.kubernetes_election import LeaseAddress
from headrace.tls.files import NamedServer


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The known access to a cluster. token: None: no token; authority: None: no TLS, or an authority of the system."""

    token: str | None
    authority: Path | NamedServer | None


def server_name(name: str, namespace: str) -> str:
    """The name in the certificate of a cluster's processes, that of its REST Service."""
    return f"{name}.{namespace}.svc"


def credentials_secret(name: str) -> str:
    """The name of the Secret with the token of a cluster and the key of its ledger: one that no user writes by hand."""
    return f"{name}-headrace"


def tls_secret(name: str) -> str:
    """The name of the Secret with the certificate of a cluster, its key and its authority."""
    return f"{name}-tls"


def with_secrets(address: str, given: ClusterAccess, otherwise: ClusterAccess) -> ClusterAccess:
    """The access to the cluster `kubernetes://NAMESPACE/NAME`. given: by the user; otherwise: for what there is no
    Secret of, or no right to it. Raises HeadraceError."""
    if given.token is not None and given.authority is not None:
        return given
    lease = LeaseAddress.parsed(address)
    connection = open_connection(os.environ)
    try:
        secrets = _Secrets(connection, lease.name, lease.namespace or connection.namespace)
        token = given.token or secrets.token() or otherwise.token
        authority = None if given.authority is not None else secrets.server()
        if token is None and secrets.refusal is not None:
            raise ExternalError(
                f"the Secrets of {address} cannot be read: {secrets.refusal.message}",
                remedy="HEADRACE_TOKEN or HEADRACE_TOKEN_FILE gives the token to clients that may not read them",
                retry=secrets.refusal.retry,
            ) from secrets.refusal
        return ClusterAccess(token, given.authority or authority or otherwise.authority)
    finally:
        connection.close()


def in_secrets(connection: Connection, name: str, namespace: str) -> ClusterAccess:
    """The access to a cluster by its Secrets alone. Raises HeadraceError."""
    secrets = _Secrets(connection, name, namespace)
    access = ClusterAccess(secrets.token(), secrets.server())
    if secrets.refusal is not None:
        raise secrets.refusal
    return access


class _Secrets:
    """The Secrets of a cluster. refusal: of the last one that may not be read."""

    def __init__(self, connection: Connection, name: str, namespace: str) -> None:
        self._connection = connection
        self._name, self._namespace = name, namespace
        self._collection = Collection("v1", "secrets", namespace)
        self.refusal: ForbiddenError | None = None

    def token(self) -> str | None:
        """The token; None: it has none."""
        token = self._field(credentials_secret(self._name), "token")
        # a user's own Secret may have the cluster's name
        return token or self._field(self._name, "token", Claim(self._name))

    def server(self) -> NamedServer | None:
        """Its coordinators; None: they speak no TLS."""
        authority = self._field(tls_secret(self._name), "ca.crt")
        return None if authority is None else NamedServer(authority, server_name(self._name, self._namespace))

    def _field(self, secret: str, name: str, claim: Claim | None = None) -> str | None:
        """A field; None: there is no such Secret, no right to it, or it is not what `claim` takes. Raises
        HeadraceError."""
        try:
            document = self._connection.get(self._collection, secret)
        except NotFoundError:
            return None
        except ForbiddenError as error:
            self.refusal = error
            return None
        if claim is not None and claim.other_owner(document):
            return None
        text = text_at(document, "data", name)
        return None if text is None else base64.b64decode(text).decode().strip()
