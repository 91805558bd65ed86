"""deploy/k8s/base on a real API server, by kubectl: as it is, and below an overlay of the page. No pod runs here."""

from __future__ import annotations

import re
from pathlib import Path

from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.pods.coordinator_account import require_account
from support.repository import ROOT

BASE, OPERATOR = ROOT / "deploy/k8s/base", ROOT / "deploy/k8s/operator"
PAGE = ROOT / "docs/kubernetes.md"
OVERLAY = re.compile(r"^```yaml\n(# overlay/kustomization\.yaml\n.*?)^```$", re.DOTALL | re.MULTILINE)


def test_it_makes_the_account_in_the_namespace_that_kubectl_is_told(kubernetes: Kubernetes, namespace: str) -> None:
    kubernetes.kubectl("--namespace", namespace, "apply", "--kustomize", str(BASE))
    require_account(kubernetes, namespace)
    again = kubernetes.kubectl("--namespace", namespace, "apply", "--kustomize", str(BASE))
    assert set(re.findall(r" (\w+)$", again, re.MULTILINE)) == {"unchanged"}


def test_the_overlay_of_the_page(kubernetes: Kubernetes, namespace: str, tmp_path: Path) -> None:
    (shown,) = OVERLAY.findall(PAGE.read_text())
    assert "namespace: data\n" in shown
    # what the page calls by its place in a checkout of one's own
    (tmp_path / "headrace/deploy").mkdir(parents=True)
    (tmp_path / "headrace/deploy/k8s").symlink_to(BASE.parent)
    (tmp_path / "overlay").mkdir()
    text = shown.replace("namespace: data\n", f"namespace: {namespace}\n")
    (tmp_path / "overlay/kustomization.yaml").write_text(text)
    kubernetes.kubectl("apply", "--kustomize", str(tmp_path / "overlay"))
    require_account(kubernetes, namespace)
    account = kubernetes.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/headrace-coordinator")
    assert "eks.amazonaws.com/role-arn" in account["metadata"]["annotations"]


def test_each_names_every_file_beside_it() -> None:
    for base, others in ((BASE, set()), (OPERATOR, {"../base"})):
        files = {str(path.relative_to(base)) for path in base.rglob("*.yaml")} - {"kustomization.yaml"}
        named = set(re.findall(r"^  - (\S+)$", (base / "kustomization.yaml").read_text(), re.MULTILINE))
        assert named == files | others
