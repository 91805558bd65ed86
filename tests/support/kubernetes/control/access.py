"""Access to an API server: certificates of the cluster's parties, and kubeconfig files for them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from support.certificates import Authority, Issued

MASTERS = "system:masters"
"""The group that may do everything."""
SERVER_NAMES = ("localhost", *(f"kubernetes{rest}" for rest in ("", ".default", ".default.svc")))


class Access:
    """The authority of a cluster whose API server is at `url`; all files are in `folder`."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.url = url
        self._authority = Authority(folder)
        self.service_accounts = self._authority.issue("service-accounts")
        """Signs the tokens of service accounts."""

    @property
    def authority(self) -> Path:
        """The certificate that all parties trust."""
        return self._authority.certificate

    def server(self, name: str, hosts: Sequence[str]) -> Issued:
        """The certificate of a server that is reached by these addresses and names."""
        first, *rest = hosts
        return self._authority.issue(name, host=first, other_hosts=rest)

    def client(self, user: str, group: str | None = None) -> Issued:
        """The certificate of a user."""
        return self._authority.issue(user, organization=group)

    def kubeconfig(self, name: str, user: Issued) -> Path:
        """A new file with everything that this user needs; it refers to no other file."""
        cluster = {"server": self.url, "certificate-authority-data": _inline(self.authority)}
        identity = {"client-certificate-data": _inline(user.certificate), "client-key-data": _inline(user.key)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": name, "user": identity}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
            "current-context": "tests",
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(document))  # which is YAML
        path.chmod(0o600)
        return path


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
