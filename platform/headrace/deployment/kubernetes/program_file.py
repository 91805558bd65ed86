"""The program of an application: a file here, which travels to the cluster, or one in its image."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import UserError
from headrace.deployment.kubernetes.work import PROGRAM, WORK_FOLDER, Work

IN_IMAGE = "local://"
"""Begins the name of a program that the image holds."""


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
