"""Reads a pipeline file from disk, and the files that its formats name, and loads its text. The only module of this
package that reads a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.core.errors import InvalidPipelineError, Location, Problem, UserError
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.load import LoadedPipeline, load_text
from headrace.spec.travelling_files import FILES_BYTES_MAX, collect


def load_pipeline(path: Path, *, set_: Sequence[str] = (), environ: Mapping[str, str]) -> LoadedPipeline:
    """Reads and checks a pipeline file, as `load_text` does with its text.

    Files that formats name are read, too, from the folder of the pipeline file. Raises UserError if the file cannot be
    read, InvalidPipelineError with every problem otherwise.
    """
    loaded = load_text(read_text(path), str(path), set_=set_, environ=environ)
    return replace(loaded, pipeline=with_files(loaded.pipeline, path.parent, loaded.locate))


def with_files(
    pipeline: Pipeline, folder: Path, locate: Callable[[tuple[str, ...]], Location | None] = lambda _: None
) -> Pipeline:
    """Returns the pipeline with the files that its formats name, read from `folder`. Only who makes a submission calls
    this. Raises InvalidPipelineError for files that cannot be read.

    locate   path of a field -> its place in the pipeline file
    """
    files: dict[str, bytes] = {}
    problems = []
    for path, use in pipeline.formats:
        try:
            collect(use.config, lambda name: _content(folder / name), files)
        except UserError as error:
            problems.append(Problem(error.message, path, locate(path), error.remedy))
    if problems:
        raise InvalidPipelineError(problems)
    return pipeline.model_copy(update={"files": files}) if files else pipeline


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # one byte more than may travel: the limit is judged by who collects them
            return file.read(FILES_BYTES_MAX + 1)
    except OSError as error:
        raise UserError(
            f"the file {path} cannot be read: {error.strerror}",
            remedy="paths of a format's files begin at the folder of the pipeline file",
        ) from error


def read_text(path: Path) -> str:
    """The text of a pipeline file. Raises UserError if it cannot be read, InvalidPipelineError if it is no text."""
    if path.is_dir():
        raise UserError(f"{path} is a folder", remedy="name the pipeline file inside of it")
    try:
        body = path.read_bytes()
    except FileNotFoundError as error:
        raise UserError(
            f"there is no file {path}", remedy="check the path; `headrace init` makes a pipeline"
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", remedy="check its permissions") from error
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        before = body[body.rfind(b"\n", 0, error.start) + 1 : error.start]
        location = Location(str(path), line, len(before.decode("utf-8", "replace")) + 1)
        problem = Problem("this is not UTF-8 text", (), location, "save the file as UTF-8")
        raise InvalidPipelineError([problem]) from error
