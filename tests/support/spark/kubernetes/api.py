"""The REST API of the stand-in for Kubernetes: as much of it as Spark's client speaks."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.spark.kubernetes.objects import (
    FORBIDDEN,
    NOT_FOUND,
    Document,
    Objects,
    RefusedError,
    merged,
    patched,
    selects,
)

KINDS = {
    "pods": "Pod",
    "services": "Service",
    "configmaps": "ConfigMap",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "secrets": "Secret",
    "networkpolicies": "NetworkPolicy",
}
_PATH = re.compile(r"/(?:api|apis/networking\.k8s\.io)/v1(?:/namespaces/([^/]+))?/(\w+)(?:/([^/]+))?(?:/(\w+))?")
_WATCH_S = 300.0


class KubernetesApi:
    """Serves the objects of a cluster.

    namespaces        those that there are
    service_accounts  of each of them; a pod of another one is refused
    log               gives what a pod, by namespace and name, has printed
    """

    def __init__(
        self,
        objects: Objects,
        namespaces: tuple[str, ...],
        service_accounts: tuple[str, ...],
        log: Callable[[str, str], str],
    ) -> None:
        self.objects = objects
        self.namespaces = namespaces
        self.service_accounts = service_accounts
        self.log = log
        self.requests: list[str] = []
        """`VERB path` of all that came, for those who look for what went wrong."""

    def created(self, kind: str, namespace: str, document: Document) -> Document:
        """A new object. Raises RefusedError."""
        if namespace not in self.namespaces:
            raise RefusedError(NOT_FOUND, f'namespaces "{namespace}" not found')
        if kind == "pods":
            account = document["spec"].setdefault("serviceAccountName", "default")
            if account not in self.service_accounts:
                raise RefusedError(
                    FORBIDDEN,
                    f'pods "{document["metadata"]["name"]}" is forbidden: error looking up service account '
                    f'{namespace}/{account}: serviceaccount "{account}" not found',
                )
            document = document | {"status": {"phase": "Pending"}}
        return self.objects.create(kind, namespace, document)


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: KubernetesApi

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Nothing: stderr is the test's."""

    def _serve(self) -> None:
        self.api.requests.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        try:
            if url.path == "/version":
                self._answer({"major": "1", "minor": "34", "gitVersion": "v1.34.0-stand-in"})
                return
            place = _PATH.fullmatch(url.path)
            if place is None or place[2] not in KINDS:
                raise RefusedError(NOT_FOUND, f"the stand-in has nothing at {url.path}")
            namespace, kind, name, part = place.groups()
            if name is None and self.command == "GET":
                self._list(kind, namespace, query)
            elif part == "log":
                self._send(self.api.log(namespace, name).encode(), "text/plain")
            else:
                self._answer(self._one(kind, namespace, name, body))
        except RefusedError as refusal:
            reason = HTTPStatus(refusal.code).phrase.replace(" ", "")
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(refusal)}
            self._answer(status | {"reason": reason, "code": refusal.code}, refusal.code)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - their names there

    def _one(self, kind: str, namespace: str, name: str | None, body: bytes) -> Document:
        objects = self.api.objects
        given: Any = json.loads(body) if body else {}
        match self.command:
            case "POST":
                return self.api.created(kind, namespace, given)
            case "DELETE" if name is None:
                selector = parse_qs(urlsplit(self.path).query).get("labelSelector", [""])[0]
                for each in objects.select(kind, namespace, selector):
                    objects.delete(kind, namespace, each["metadata"]["name"])
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        assert name is not None
        match self.command:
            case "GET":
                return objects.get(kind, namespace, name)
            case "DELETE":
                return objects.delete(kind, namespace, name)
            case "PUT":
                return objects.change(kind, namespace, name, lambda _: given)
        if "json-patch" in self.headers.get("Content-Type", ""):
            return objects.change(kind, namespace, name, lambda document: patched(document, given))
        try:
            return objects.change(kind, namespace, name, lambda document: merged(document, given))
        except RefusedError:
            # applied by the server: what is not there is made
            if "apply-patch" not in self.headers.get("Content-Type", ""):
                raise
            return self.api.created(kind, namespace, given)

    def _list(self, kind: str, namespace: str | None, query: dict[str, str]) -> None:
        objects, selector = self.api.objects, query.get("labelSelector", "")
        name = dict(term.split("=", 1) for term in query.get("fieldSelector", "").split(",") if "=" in term)

        def is_mine(document: Document) -> bool:
            meta = document["metadata"]
            if "metadata.name" in name and meta["name"] != name["metadata.name"]:
                return False
            return namespace in (None, meta["namespace"]) and selects(selector, document)

        if query.get("watch") == "true":
            # a client that asks for a web socket takes this as well, by an answer that is none
            self._watch(kind, int(query.get("resourceVersion") or 0), is_mine)
            return
        version = objects.version
        items = [document for document in objects.select(kind, namespace) if is_mine(document)]
        kinds = {"kind": f"{KINDS[kind]}List", "apiVersion": "v1"}
        self._answer(kinds | {"metadata": {"resourceVersion": str(version)}, "items": items})

    def _watch(self, kind: str, since: int, is_mine: Callable[[Document], bool]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.headers.get("Upgrade"):
            self.wfile.write(b"0\r\n\r\n")
            return
        self.close_connection = True
        try:
            for event in self.api.objects.watch(kind, since, _WATCH_S, is_mine):
                line = json.dumps({"type": event.type, "object": event.object}).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass  # nobody listens any more

    def _answer(self, document: Document, code: int = 200) -> None:
        self._send(json.dumps(document).encode(), "application/json", code)

    def _send(self, content: bytes, content_type: str, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed end in the middle of a request; what else goes wrong, they tell of."""


@contextmanager
def served(api: KubernetesApi, host: str) -> Iterator[str]:
    """Listens on a free port; gives the URL."""
    server = _Server((host, 0), type("Requests", (_Requests,), {"api": api}))
    thread = threading.Thread(target=server.serve_forever, name="kubernetes-api")
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        api.objects.close()
        server.shutdown()
        thread.join()
        server.server_close()
