"""The token of a cluster on Kubernetes, in the Secret of its name: for clients that may read it."""

from __future__ import annotations

import base64
import os

from headrace.core.errors import ExternalError, HeadraceError
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import open_connection
from headrace.kubernetes.documents import text_at
from headrace.kubernetes.refusals import NotFoundError
from headrace.leadership.kubernetes_election import LeaseAddress


def token_in_secret(address: str) -> str | None:
    """The token of the cluster `kubernetes://NAMESPACE/NAME`; None: there is no such Secret. Raises HeadraceError."""
    lease = LeaseAddress.parsed(address)
    connection = open_connection(os.environ)
    try:
        secrets = Collection("v1", "secrets", lease.namespace or connection.namespace)
        found = text_at(connection.get(secrets, lease.name), "data", "token")
        return None if found is None else base64.b64decode(found).decode().strip()
    except NotFoundError:
        return None
    except HeadraceError as error:
        raise ExternalError(
            f"the token of {address} cannot be read: {error.message}",
            remedy="HEADRACE_TOKEN or HEADRACE_TOKEN_FILE gives it to clients that may not read the Secret",
            retry=error.retry,
        ) from error
    finally:
        connection.close()
