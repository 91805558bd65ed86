"""Reads the description of a cluster on Kubernetes from a YAML file."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import UserError
from headrace.deployment.description import BYTES_MAX, described, read_document
from headrace.deployment.kubernetes.cluster_spec import ClusterSpec

__all__ = ["BYTES_MAX", "cluster_spec", "read_cluster_file"]


def read_cluster_file(path: Path) -> ClusterSpec:
    """The description in a file. Raises UserError with every problem and its place in the file."""
    return cluster_spec(read_document(path), str(path))


def cluster_spec(document: object, where: str) -> ClusterSpec:
    """The description in a document. where: named in errors. Raises UserError with every problem."""
    spec = described(ClusterSpec, document, where)
    try:
        _ = spec.workers.provisioning
    except UserError as error:
        raise UserError(f"{where}: workers: {error.message}", remedy=error.remedy) from error
    return spec
