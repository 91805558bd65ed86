"""Imports and calls the function of a map step: a shell, because an import reads files and runs their code.

Everything that can go wrong in an import is a UserError that names the step and the module. Calls are recorded in a
process whose owner asks for it (`record_calls`): a function may end its process.
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
from headrace.core.files.running_calls import RunningCalls

MapFunction = Callable[[pl.DataFrame], pl.DataFrame]

_record: RunningCalls | None = None


def record_calls(record: RunningCalls) -> None:
    """From now on every call of a user's function in this process is recorded there."""
    global _record  # noqa: PLW0603 - one a process, as the file is
    _record = record


def call(function: MapFunction, rows: pl.DataFrame, what: str) -> pl.DataFrame:
    """Calls a user's function. what: names it in the record. Raises what the function raises."""
    if _record is None:
        return function(rows)
    with _record.recorded(what):
        return function(rows)


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
    except (Exception, SystemExit) as cause:
        where = traceback.extract_tb(cause.__traceback__)[-1]
        raise UserError(
            f"map step {node!r}: importing {name!r} raised {exception_text(cause)} ({where.filename}:{where.lineno})"
        ) from cause


def exception_text(cause: BaseException) -> str:
    """`ValueError: text`, or only the type's name if the exception has no text."""
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
