"""Reads a pipeline file from disk, and loads its text. The only module of this package that reads a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.core.errors import InvalidPipelineError, Location, Problem, UserError
from headrace.spec.reading.load import LoadedPipeline, load_text


def load_pipeline(path: Path, *, set_: Sequence[str] = (), environ: Mapping[str, str]) -> LoadedPipeline:
    """Reads and checks a pipeline file, as `load_text` does with its text.

    Raises UserError if the file cannot be read, InvalidPipelineError with every problem otherwise.
    """
    return load_text(read_text(path), str(path), set_=set_, environ=environ)


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
