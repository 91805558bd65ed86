"""Reads the description of a cluster from a YAML file."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import Problem, UserError
from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.spec.reading.findings import FindingsError
from headrace.spec.reading.wording import read_model

BYTES_MAX = 1 << 20
"""The most that Kubernetes takes as one object."""


def read_cluster_file(path: Path) -> ClusterSpec:
    """The description in a file. Raises UserError with every problem and its place in the file."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", remedy="name a file that describes it") from error
    if len(text) > BYTES_MAX:
        raise UserError(f"{path} has more than {BYTES_MAX >> 20} MiB", remedy="Kubernetes takes no object of that size")
    return cluster_spec(_document(text, path), str(path))


def cluster_spec(document: object, where: str) -> ClusterSpec:
    """The description in a document. where: named in errors. Raises UserError with every problem."""
    try:
        spec = read_model(ClusterSpec, document)
        _ = spec.workers.provisioning
    except FindingsError as error:
        problems = (Problem(each.message, each.path, remedy=each.remedy) for each in error.findings)
        raise UserError("\n".join(f"{where}: {problem}" for problem in problems)) from error
    except UserError as error:
        raise UserError(f"{where}: workers: {error.message}", remedy=error.remedy) from error
    return spec


def _document(text: bytes, path: Path) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise UserError(f"{path}{place}: {error.problem or 'this is no YAML'}", remedy="correct the YAML") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: this is no YAML", remedy="write UTF-8 text in YAML") from error
