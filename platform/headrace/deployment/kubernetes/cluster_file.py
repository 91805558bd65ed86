"""Reads files of this host for a cluster on Kubernetes: its description, and the program of an application."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import UserError
from headrace.deployment.description import described, read_document
from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.deployment.kubernetes.work import PROGRAM, WORK_FOLDER, Work

IN_IMAGE = "local://"
"""Begins the name of a program that the image holds."""


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


def program_work(program: str) -> Work:
    """The work of a cluster that serves an application. program: a file here, or `local://` and the path of one in the
    image. Raises UserError."""
    if program.startswith(IN_IMAGE):
        return Work((PROGRAM, program.removeprefix(IN_IMAGE)))
    file = Path(program)
    if file.suffix != ".py" or not file.is_file():
        raise UserError(
            f"{program} is no Python program",
            remedy=f"name a .py file that submits jobs, or {IN_IMAGE}/path/in/the/image.py",
        )
    return Work((PROGRAM, f"{WORK_FOLDER}/{file.name}"), {file.name: file.read_bytes()})
