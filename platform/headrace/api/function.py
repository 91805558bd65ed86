"""The import path of a map step's Python function: the form in which it travels to another process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.errors import UserError

if TYPE_CHECKING:
    import polars as pl

MapFunction = Callable[["pl.DataFrame"], "pl.DataFrame"]
"""Takes a DataFrame of the visible columns, returns the same number of rows in the same order."""

_MOVE = "define it with def at the top level of a module beside the pipeline, and pass that"


def function_path(function: MapFunction | str, where: str) -> str:
    """Returns `pkg.mod:fn` of a function. Raises UserError for a function that another process could not import."""
    if isinstance(function, str):
        return function
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        raise UserError(f"{where}: a {type(function).__name__} has no import path", remedy=_MOVE)
    if name.endswith("<lambda>"):
        raise UserError(f"{where}: a lambda cannot be imported by another process", remedy=_MOVE)
    if "<locals>" in name:
        raise UserError(f"{where}: {name} is made inside of a function, where no import finds it", remedy=_MOVE)
    if module == "__main__":
        raise UserError(
            f"{where}: {name} is in the script that runs, which other processes import under another name", remedy=_MOVE
        )
    if not _same(_found(module, name), function):
        raise UserError(f"{where}: importing {module}:{name} does not give this function", remedy=_MOVE)
    return f"{module}:{name}"


def _found(module: str, name: str) -> object:
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _same(found: object, function: object) -> bool:
    """Whether two functions have equal code: loading a pipeline file twice creates its functions twice."""
    code = getattr(function, "__code__", None)
    return found is function or (code is not None and getattr(found, "__code__", None) == code)
