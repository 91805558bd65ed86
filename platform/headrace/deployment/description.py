"""Reads the description of a cluster, a YAML file, for any system."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from headrace.core.config import FileModel
from headrace.core.errors import Problem, UserError
from headrace.spec.findings import FindingsError
from headrace.spec.wording import read_model

BYTES_MAX = 1 << 20
"""The largest file: Kubernetes accepts no larger object."""

Description = TypeVar("Description", bound=FileModel)


def read_document(path: Path) -> object:
    """The content of a file. Raises UserError with the place of what is no YAML."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", remedy="name a file that describes it") from error
    if len(text) > BYTES_MAX:
        raise UserError(
            f"{path} has more than {BYTES_MAX >> 20} MiB", remedy="describe the cluster in a file of its own"
        )
    return _parsed(text, path)


def described(model: type[Description], document: object, where: str) -> Description:
    """The description in a document. where: named in errors. Raises UserError with every problem."""
    try:
        return read_model(model, document)
    except FindingsError as error:
        problems = (Problem(each.message, each.path, remedy=each.remedy) for each in error.findings)
        raise UserError("\n".join(f"{where}: {problem}" for problem in problems)) from error


def _parsed(text: bytes, path: Path) -> object:
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
