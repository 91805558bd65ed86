"""The accepted forms of a pipeline: a builder, a model, or a file."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from headrace.api.running import load
from headrace.core.files.named_file import named_file

if TYPE_CHECKING:
    from headrace.spec.pipeline import Pipeline as PipelineModel


@runtime_checkable
class Builder(Protocol):
    """An object that builds a pipeline: `headrace.Pipeline`."""

    def build(self) -> PipelineModel:
        """Returns the model. Raises InvalidPipelineError."""
        ...


if TYPE_CHECKING:
    PipelineLike = Builder | PipelineModel | str | PathLike[str]


def model_of(pipeline: PipelineLike) -> PipelineModel:
    """Returns the pipeline as a model. Raises InvalidPipelineError, UserError for a missing file."""
    if isinstance(pipeline, Builder):
        return pipeline.build()
    return load(pipeline) if isinstance(pipeline, str | PathLike) else pipeline


def import_path(pipeline: PipelineLike) -> tuple[str, ...]:
    """Returns the import path for the user's functions: the file's folder, else the current one."""
    if not isinstance(pipeline, str | PathLike):
        return (str(Path.cwd()),)
    file = fspath(pipeline)
    return (str(named_file(file).parent),)
