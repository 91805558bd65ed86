"""What tests with Kubernetes need of this machine. Where it is missing they are skipped, and fail where CI is set."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.core.errors import ExternalError
from support.kubernetes.programs.binaries import wait_for
from support.kubernetes.programs.recipe import Component
from support.missing_tool import skip_or_fail
from support.patience import KUBERNETES_BUILD_SECONDS


def require_binaries(components: Sequence[Component]) -> Path:
    """Returns the folder with these programs. Waits for them while another process builds them."""
    try:
        return wait_for(components, KUBERNETES_BUILD_SECONDS, _report)
    except ExternalError as error:
        skip_or_fail(str(error).replace("\n ", ";"))


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
