"""A cluster as a test uses it, wherever its servers run: by its API, by kubectl, in a namespace of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.kubernetes.connection import Connection, open_connection
from support.kubernetes.control.access import MASTERS, Access
from support.kubernetes.control.api import Api
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until


@dataclass(frozen=True, slots=True)
class Credentials:
    """An administrator's: for clients that read a kubeconfig, and for those that take certificates.

    store: key and certificate in one file.
    """

    url: str
    kubeconfig: Path
    authority: Path
    store: Path

    @staticmethod
    def issued(access: Access) -> Credentials:
        """New ones."""
        admin = access.client("admin", MASTERS)
        return Credentials(access.url, access.kubeconfig("admin", admin), access.authority, admin.store)

    @staticmethod
    def of(document: Mapping[str, object]) -> Credentials:
        """Those that `document` has returned in another process."""
        texts = {name: str(value) for name, value in document.items()}
        paths = (Path(texts[name]) for name in ("kubeconfig", "authority", "store"))
        return Credentials(texts["url"], *paths)

    def document(self) -> Mapping[str, object]:
        """For another process."""
        return {name: str(value) for name, value in asdict(self).items()}


class Kubernetes:
    """A running cluster as its administrator sees it."""

    def __init__(self, binaries: Path, credentials: Credentials) -> None:
        self._binaries = binaries
        self.credentials = credentials
        self.api = Api(credentials.url, credentials.authority, credentials.store)

    @property
    def kubeconfig(self) -> Path:
        """Gives all rights, and refers to no other file."""
        return self.credentials.kubeconfig

    @property
    def url(self) -> str:
        """Of its API."""
        return self.credentials.url

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which clients find it."""
        return {"KUBECONFIG": str(self.kubeconfig)}

    def connection(self) -> Connection:
        """A connection of the product with all rights, which the caller closes."""
        return open_connection({}, kubeconfig=self.kubeconfig)

    def kubeconfig_of(self, token: str, path: Path, namespace: str = "default") -> Path:
        """Writes a kubeconfig of whoever has that token. namespace: of its context."""
        document = json.loads(self.kubeconfig.read_text())
        for context in document["contexts"]:
            context["context"]["namespace"] = namespace
        for user in document["users"]:
            user["user"] = {"token": token}
        path.write_text(json.dumps(document))
        return path

    def close(self) -> None:
        """Closes the connections to it."""
        self.api.close()

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """Returns what kubectl prints; fails with its message. given: what it reads from its input."""
        with self.kubectl_started(*arguments) as process:
            output, messages = process.communicate(given, timeout=WAIT_SECONDS)
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {messages}"
        return output

    def kubectl_started(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts kubectl, for commands that go on."""
        return subprocess.Popen(
            [str(self._binaries / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        )

    @contextmanager
    def namespace(self, stem: str = "test") -> Iterator[str]:
        """A new namespace with its default service account. At the end it is deleted, without waiting for that."""
        name = f"{stem}-{uuid.uuid4().hex[:10]}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        try:
            self.wait_service_account(name)
            yield name
        finally:
            if self.api.find(f"/api/v1/namespaces/{name}") is not None:
                self.api.delete(f"/api/v1/namespaces/{name}")

    def wait_service_account(self, namespace: str) -> None:
        """Pods can be created once it exists."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        wait_until(lambda: self.api.find(path) is not None, f"the service account of {namespace}")
