"""A cluster's API over plain HTTPS, for what tests arrange and look at."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import httpx

from support.patience import WAIT_SECONDS

Document = dict[str, Any]


class Api:
    """Calls by path, as a user with a certificate. An answer that is an error fails the test.

    store: the user's key and certificate in one file.
    """

    def __init__(self, url: str, authority: Path, store: Path) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        context.load_cert_chain(store)
        # another server may have taken its place since the last call
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(base_url=url, verify=context, trust_env=False, timeout=WAIT_SECONDS, limits=limits)

    def find(self, path: str) -> Document | None:
        """The object or list; None: there is none."""
        answer = self._client.get(path)
        return None if answer.status_code == httpx.codes.NOT_FOUND else _document(answer)

    def get(self, path: str, *, timeout: float = WAIT_SECONDS) -> Document:
        """The object or list. timeout: in s, for each step of the call; later it raises httpx.TimeoutException."""
        return _document(self._client.get(path, timeout=timeout))

    def log(self, pod: str) -> str:
        """What the container of a pod has printed; empty where it has not begun. pod: its path."""
        answer = self._client.get(f"{pod}/log")
        # the container has not begun, or its node does not know the pod yet
        if answer.status_code in {httpx.codes.BAD_REQUEST, httpx.codes.NOT_FOUND}:
            return ""
        assert answer.is_success, f"the log of {pod}: {answer.status_code} {answer.text}"
        return answer.text

    def create(self, path: str, document: Document) -> Document:
        """Creates an object in a collection; returns it as it is stored."""
        return _document(self._client.post(path, json=document))

    def delete(self, path: str, *, propagation: str | None = None, grace_s: int | None = None) -> None:
        """Deletes an object. propagation: Background, Foreground or Orphan."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        _document(self._client.request("DELETE", path, content=json.dumps(options)))

    def evict(self, pod: str) -> bool:
        """Evicts a pod as a drain does. Returns False if a budget does not allow it now. pod: its path."""
        namespace, _, name = pod.split("/")[-3:]
        metadata = {"name": name, "namespace": namespace}
        document = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        answer = self._client.post(f"{pod}/eviction", json=document)
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            assert "disruption budget" in answer.text, answer.text
            return False
        _document(answer)
        return True

    def is_ready(self) -> bool:
        """Whether the server serves all its APIs."""
        try:
            return self._client.get("/readyz").is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()


def _document(answer: httpx.Response) -> Document:
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    found: Document = answer.json()
    return found
