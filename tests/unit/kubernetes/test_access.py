"""Access as kubectl finds it: files of kubeconfig, and the service account of a pod."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.kubernetes import access
from headrace.kubernetes.access import CONTEXT_VARIABLE, KubeconfigAccess, PodAccess, find_access
from support.certificates import Authority

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def _kubeconfig(path: Path, user: Mapping[str, object], server: Mapping[str, object] | None = None) -> Path:
    contexts = [
        {"name": "first", "context": {"cluster": "c", "user": "u", "namespace": "orders"}},
        {"name": "second", "context": {"cluster": "c", "user": "u"}},
    ]
    document = {
        "current-context": "first",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **(server or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": contexts,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_access_is_found_where_kubectl_finds_it(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert find_access(home | IN_POD) == PodAccess(home | IN_POD)
    usual = _kubeconfig(tmp_path / ".kube" / "config", {})
    assert find_access(home | IN_POD) == KubeconfigAccess(str(usual))
    assert find_access(home | {"KUBECONFIG": "a:b", CONTEXT_VARIABLE: "x"}) == KubeconfigAccess("a:b", "x")
    assert find_access({"KUBECONFIG": "a"}, kubeconfig=Path("b"), context="y") == KubeconfigAccess("b", "y")
    with pytest.raises(UserError, match="no Kubernetes cluster is configured"):
        find_access({"HOME": "/nowhere"})


def test_a_context_has_a_namespace_and_a_token(tmp_path: Path) -> None:
    path = _kubeconfig(tmp_path / "k", {"token": "secret"})
    credentials = KubeconfigAccess(str(path)).read()
    assert (credentials.host, credentials.namespace) == ("http://127.0.0.1:1", "orders")
    assert credentials.authorization() == "Bearer secret"
    assert KubeconfigAccess(str(path), "second").read().namespace == "default"


def test_a_plugin_gives_the_token(tmp_path: Path) -> None:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}
    program = ["-c", f"print({json.dumps(answer)!r})"]
    plugin = {"apiVersion": answer["apiVersion"], "command": sys.executable, "args": program}
    path = _kubeconfig(tmp_path / "k", {"exec": plugin})
    assert KubeconfigAccess(str(path)).read().authorization() == "Bearer made"


def test_keys_in_a_kubeconfig_are_in_no_file_once_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    issued = authority.issue("client")
    user = {"client-certificate-data": _encoded(issued.certificate), "client-key-data": _encoded(issued.key)}
    server = {"server": "https://127.0.0.1:1", "certificate-authority-data": _encoded(authority.certificate)}
    path = _kubeconfig(tmp_path / "k", user, server)
    for _ in range(2):
        credentials = KubeconfigAccess(str(path)).read()
        assert credentials.authorization() is None
        assert credentials.pool(1).connection_pool_kw["ssl_context"].get_ca_certs()
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "[", "clusters: 3", '{"current-context": "none", "contexts": [], "clusters": [], "users": []}', None]
)
def test_a_kubeconfig_that_cannot_be_used_is_named(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "k"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=str(path)):
        KubeconfigAccess(str(path)).read()


def _account(folder: Path, authority: Authority) -> Path:
    (folder / "token").write_text("first\n")
    (folder / "namespace").write_text("orders")
    (folder / "ca.crt").write_bytes(authority.certificate.read_bytes())
    return folder


def test_a_pod_reads_its_token_again(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = PodAccess(IN_POD, _account(tmp_path, authority)).read()
    assert (credentials.host, credentials.namespace) == ("https://10.96.0.1:443", "orders")
    (tmp_path / "token").write_text("second\n")
    assert credentials.authorization() == "Bearer first"
    monkeypatch.setattr(access, "REREAD_SECONDS", 0.0)
    assert credentials.authorization() == "Bearer second"
    (tmp_path / "token").unlink()
    assert credentials.authorization() == "Bearer second"


def test_a_pod_without_a_service_account_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="service account") as refused:
        PodAccess(IN_POD, tmp_path).read()
    assert refused.value.remedy is not None
    assert "automountServiceAccountToken" in refused.value.remedy


@pytest.mark.parametrize("package", ["kubernetes", "urllib3"])
def test_a_missing_extra_is_named(
    package: str, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.client", None)
    with pytest.raises(UserError, match="needs the package kubernetes") as refused:
        if package == "kubernetes":
            KubeconfigAccess(str(_kubeconfig(tmp_path / "k", {}))).read()
        else:
            PodAccess(IN_POD, _account(tmp_path, authority)).read().pool(1)
    assert refused.value.remedy == "pip install 'headrace[kubernetes]'"
