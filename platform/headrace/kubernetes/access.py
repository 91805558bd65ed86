"""Where the API server is, and with which credentials: as kubectl finds them.

    1. the given kubeconfig, or the files that KUBECONFIG names
    2. ~/.kube/config
    3. in a pod: its service account (KUBERNETES_SERVICE_HOST, mounted token, CA and namespace)

`HEADRACE_KUBERNETES_CONTEXT` names a context of the kubeconfig other than its current one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from headrace.core.errors import UserError
from headrace.kubernetes.credentials import Credentials

CONTEXT_VARIABLE = "HEADRACE_KUBERNETES_CONTEXT"


class Access(Protocol):
    """Reads credentials; again when the server does not accept them any more, because files may have been replaced."""

    def read(self) -> Credentials:
        """Raises UserError for a configuration that is wrong."""
        ...


def find_access(
    environment: Mapping[str, str], *, kubeconfig: Path | None = None, context: str | None = None
) -> Access:
    """The access that kubectl would use here. Raises UserError if there is none."""
    from headrace.kubernetes.kubeconfig import KubeconfigAccess
    from headrace.kubernetes.pod import HOST_VARIABLE, PodAccess

    context = context or environment.get(CONTEXT_VARIABLE) or None
    files = str(kubeconfig) if kubeconfig is not None else environment.get("KUBECONFIG", "")
    if files:
        return KubeconfigAccess(files, context)
    home = environment.get("HOME")
    usual = Path(home) / ".kube" / "config" if home else None
    if usual is not None and usual.exists():
        return KubeconfigAccess(str(usual), context)
    if environment.get(HOST_VARIABLE):
        return PodAccess(environment)
    raise UserError(
        "no Kubernetes cluster is configured",
        remedy="set KUBECONFIG, or write ~/.kube/config; in a pod the service account is used",
    )
