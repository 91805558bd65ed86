"""Imports the function of a map step: a shell, because an import reads files and runs their code.

Everything that can go wrong is a UserError that names the step and the module.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import polars as pl

from headrace.core.errors import UserError, did_you_mean

MapFunction = Callable[[pl.DataFrame], pl.DataFrame]


def import_function(node: str, path: str) -> MapFunction:
    """Imports the function that `pkg.mod:fn` names. Raises UserError with the step's name and a remedy."""
    module_name, colon, attribute = path.partition(":")
    if not (colon and module_name and attribute):
        raise UserError(f"map step {node!r}: {path!r} names no function", remedy="write package.module:function")
    target: object = _module(node, module_name)
    for part in attribute.split("."):
        if not hasattr(target, part):
            names = [name for name, value in vars(target).items() if callable(value) and not name.startswith("_")]
            near = did_you_mean(part, names)
            has = f"it has: {', '.join(names[:20])}" if names else "it has no functions"
            raise UserError(
                f"map step {node!r}: {module_name} has no {attribute!r}", remedy=f"{near} {has}" if near else has
            )
        target = getattr(target, part)
    if not callable(target):
        raise UserError(f"map step {node!r}: {path} is {type(target).__name__}, not a function")
    return target


def _module(node: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as cause:
        first = Path(sys.path[0] or ".").absolute()
        if cause.name is not None and (name == cause.name or name.startswith(f"{cause.name}.")):
            raise UserError(
                f"map step {node!r}: there is no module {name!r}",
                remedy=f"put it into {first}, which is searched first, or install the package that has it",
            ) from cause
        raise UserError(
            f"map step {node!r}: module {name!r} imports {cause.name!r}, which is not there",
            remedy=f"install it, or put it into {first}, which is searched first",
        ) from cause
    except Exception as cause:
        where = traceback.extract_tb(cause.__traceback__)[-1]
        raise UserError(
            f"map step {node!r}: importing {name!r} raised {exception_text(cause)} ({where.filename}:{where.lineno})"
        ) from cause


def exception_text(cause: BaseException) -> str:
    """`ValueError: text`, or only the type's name if the exception has no text."""
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
