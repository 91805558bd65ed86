"""Reads the file of a pipeline. Imports nothing of the engine; only the nodes of a file with mistakes are planned, so
that all mistakes are reported at once.

FILE is `.yaml`/`.yml`, or `module.py[:name]` with a pipeline of the Python builder. Its folder becomes the first entry
of the import path, so that `map` functions beside it are found.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from headrace.core.concealing import conceal
from headrace.core.errors import Location, Problem, UserError, did_you_mean
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.load import PartlyReadError, in_file_order, is_opaque, load_without_variables
from headrace.spec.reading.load_file import load_pipeline, read_text, with_files

if TYPE_CHECKING:
    from headrace.plan.problems import Locator


@runtime_checkable
class PipelineSource(Protocol):
    """The builder of `headrace.api`, which a Python file may contain."""

    def build(self) -> Pipeline:
        """Returns the pipeline as a model."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pipeline and, if it came from a YAML file, the locator of its places there."""

    pipeline: Pipeline
    locator: Locator | None = None


def load_file(file: str, set_: Sequence[str] = (), parallelism: int | None = None) -> Loaded:
    """Loads FILE. From now on this process hides the values of its variables (`core.concealing`). Raises UserError if
    it does not exist, InvalidPipelineError with every problem if it is invalid."""
    path, _, name = file.partition(":") if ".py" in file else (file, "", "")
    overrides = [*set_, *([] if parallelism is None else [f"parallelism={parallelism}"])]
    _import_from(Path(path).resolve().parent)
    if Path(path).suffix == ".py":
        if overrides:
            raise UserError("--set and --parallelism change a YAML file", remedy="change the Python pipeline itself")
        return Loaded(_pipeline_of(Path(path), name))
    conceal({})
    try:
        loaded = load_pipeline(Path(path), set_=overrides, environ=os.environ)
    except PartlyReadError as error:
        # only a file with mistakes pays for importing the planner
        from headrace.plan.every_problem import every_problem

        raise every_problem(error) from error
    conceal(loaded.pipeline.hidden)
    return Loaded(loaded.pipeline, loaded)


def unreplaced_problems(file: str, set_: Sequence[str] = ()) -> tuple[list[Problem], list[Location]]:
    """Checks FILE, which is no Python file, without the environment and without the functions beside it: its problems
    that do not depend on variables, and the places of the values that were not checked. Raises as `load_file`."""
    from headrace.plan.logical import problems_of

    path = Path(file)
    if path.suffix == ".py":
        raise UserError("a Python pipeline is a program: it reads what it likes", remedy="check a YAML file")
    read = load_without_variables(read_text(path), str(path), set_=set_)
    problems = read.problems
    if read.readable is None:
        return problems, []
    known = {problem.path for problem in problems}
    planned = problems_of(read.readable.pipeline, read.readable)
    added = [each for each in planned if each.path not in known and not is_opaque(each.path, read.opaque)]
    places = {read.readable.locate(each) for each in read.opaque}
    unchecked = sorted(places, key=lambda place: (place.line, place.column))
    return in_file_order([*problems, *added]), unchecked


def _import_from(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _pipeline_of(path: Path, name: str) -> Pipeline:
    if not path.is_file():
        raise UserError(f"no file {path}", remedy="name a .yaml file or module.py[:name]")
    module = _module(path)
    found = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, PipelineSource | Pipeline) and not isinstance(value, type)
    }
    if name and name not in found:
        hint = did_you_mean(name, tuple(found))
        raise UserError(f"{path} has no pipeline {name!r}", remedy=hint or f"it has: {', '.join(found) or 'none'}")
    if not name and len(found) != 1:
        text = f"it has: {', '.join(found)}; write {path}:NAME" if found else "create one with headrace.Pipeline(..)"
        raise UserError(f"{path} holds {len(found)} pipelines, not one", remedy=text)
    chosen = found[name] if name else next(iter(found.values()))
    return with_files(chosen, Path()) if isinstance(chosen, Pipeline) else chosen.build()


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as cause:
        raise UserError(f"{path} cannot be imported: {type(cause).__name__}: {cause}") from cause
    return module
