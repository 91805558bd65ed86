"""Reads the description of a cluster on YARN from a YAML file."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import UserError
from headrace.deployment.description import described, read_document
from headrace.deployment.yarn.cluster_spec import YarnSpec


def read_yarn_file(path: Path) -> YarnSpec:
    """The description in a file. Raises UserError with every problem and its place in the file."""
    spec = described(YarnSpec, read_document(path), str(path))
    try:
        _ = spec.workers.provisioning
    except UserError as error:
        raise UserError(f"{path}: workers: {error.message}", remedy=error.remedy) from error
    return spec
