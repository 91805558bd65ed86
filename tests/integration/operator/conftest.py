"""The custom resource definitions in the control plane that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.kubernetes.connection import Connection
from support.kubernetes.kubernetes import Kubernetes
from support.operator.definitions import install_definitions


@pytest.fixture(scope="session")
def connection(kubernetes: Kubernetes) -> Iterator[Connection]:
    """With all rights, to an API server that has the definitions."""
    opened = kubernetes.connection()
    install_definitions(opened)
    yield opened
    opened.close()
