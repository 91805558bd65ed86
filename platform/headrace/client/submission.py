"""The content of a submission: the pipeline's file form, independent of this process, its code, its key.

Modules with `map` functions may lie beside the pipeline file. These modules, and modules that they import from that
folder, are packed into one archive; other files of the folder are not shipped. A slot unpacks the archive, so that
modules find the data files of their package. Code that is imported in other ways must be named: `--py-files`.
"""

from __future__ import annotations

import ast
import io
import os
import tarfile
import threading
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headrace.checkpoint.paths import absolute
from headrace.client.requests import CODE_BYTES_MAX, CODE_ENDINGS, CodeArchive
from headrace.core.errors import UserError
from headrace.spec.pipeline import Pipeline

APPLICATION_VARIABLE = "HEADRACE_APPLICATION"
"""The pid of the attendant, in the environment of the program that it runs and starts again."""
_HOST_PATHS = {"files": "path"}
"""Connector -> its field with a path on the host. A relative one refers to the working folder here, not to a slot's."""

_submissions: Counter[str] = Counter()
_counting = threading.Lock()


def application_key(name: str) -> str | None:
    """The key of this process's next submission of a pipeline of that name, if an attendant runs it; else None.

    A program that is started again, beside the next leader, submits the same pipelines in the same order: each finds
    the job of the first time. Its children, which inherit the variable, may come in any order, and have no keys.
    """
    if os.environ.get(APPLICATION_VARIABLE) != str(os.getppid()):
        return None
    with _counting:
        _submissions[name] += 1
        return f"{name}/{_submissions[name]}"


def file_form(pipeline: Pipeline) -> dict[str, Any]:
    """The pipeline as plain data, with secrets; relative paths are resolved against the working folder."""
    data = pipeline.to_dict()
    for nodes in (data["sources"], data["sinks"]):
        for node in nodes.values():
            for connector, field in _HOST_PATHS.items():
                if connector in node:
                    node[connector][field] = absolute(node[connector][field])
    if pipeline.checkpoint.storage is not None:
        data["checkpoint"]["storage"] = absolute(pipeline.checkpoint.storage)
    return data


def job_code(
    pipeline: Pipeline, folder: Path, *, py_files: Sequence[str] = (), archives: Sequence[str] = ()
) -> tuple[CodeArchive, ...]:
    """The code of a pipeline whose file lies in `folder`: named code first, then the modules beside the file.

    Raises UserError if it cannot be read, or exceeds `CODE_BYTES_MAX`.
    """
    functions = [path for step in pipeline.steps.values() for path in step.verb.functions]
    own = own_code(folder, [path.partition(":")[0] for path in functions])
    return limited((*given_code(py_files, archives), *(() if own is None else (own,))))


FILES_MAX = 10_000
"""Most files of one archive."""
OWN_CODE = "pipeline-code.tar.gz"

_IMPORTABLE = (".py", ".zip", ".whl", ".egg")
_SKIPPED = {"__pycache__", "node_modules"}


def own_code(folder: Path, modules: Iterable[str]) -> CodeArchive | None:
    """Those of `modules` (dotted names) in `folder`, with their imports from it; None if there are none."""
    files: set[Path] = set()
    seen: set[str] = set()
    todo = {_top(name) for name in modules}
    while todo:
        name = todo.pop()
        seen.add(name)
        found = _files_of(folder, name)
        files |= found
        todo |= {top for path in found if path.suffix == ".py" for top in _imports(path)} - seen
        if len(files) > FILES_MAX:
            raise UserError(f"{folder}: the map functions take more than {FILES_MAX:,} files with them")
    return CodeArchive.of(OWN_CODE, _packed(folder, sorted(files))) if files else None


def given_code(py_files: Sequence[str], archives: Sequence[str]) -> tuple[CodeArchive, ...]:
    """The code named by `--py-files` (modules, zips, wheels, folders) and `--archives` (zips and tars, unpacked), in
    order."""
    named = [_py_file(Path(text)) for given in py_files for text in given.split(",") if text]
    return (*named, *(_archive(Path(text)) for given in archives for text in given.split(",") if text))


def limited(code: Sequence[CodeArchive]) -> tuple[CodeArchive, ...]:
    """The same code. Raises UserError if it exceeds `CODE_BYTES_MAX`."""
    size = sum(len(each.content) for each in code)
    if size > CODE_BYTES_MAX:
        largest = max(code, key=lambda each: len(each.content))
        raise UserError(
            f"the job's code has {size:,} bytes, and at most {CODE_BYTES_MAX:,} travel; the largest is {largest.name}",
            remedy="install large libraries where the workers run",
        )
    return tuple(code)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _files_of(folder: Path, name: str) -> set[Path]:
    """The files of a top-level module or package of the folder; a package with its data files."""
    if (folder / name / "__init__.py").is_file() or _is_namespace(folder / name):
        inside = (path for path in (folder / name).rglob("*") if not _hidden(path.relative_to(folder)))
        return {path for path in inside if path.is_file()}
    module = folder / f"{name}.py"
    return {module} if module.is_file() else set()


def _is_namespace(folder: Path) -> bool:
    return folder.is_dir() and not folder.with_suffix(".py").is_file() and any(folder.glob("*.py"))


def _hidden(path: Path) -> bool:
    return any(part in _SKIPPED or part.startswith(".") for part in path.parts) or path.suffix == ".pyc"


def _imports(path: Path) -> set[str]:
    """Top-level names that a module imports. Empty for a module that does not parse: running it reports the error."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names |= {_top(alias.name) for alias in node.names}
            case ast.ImportFrom(module=str(module), level=0):
                names.add(_top(module))
            case _:
                pass
    return names


def _py_file(path: Path) -> CodeArchive:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file() and not _hidden(each.relative_to(path)))
        return _code(f"{path.resolve().name}.tar.gz", _packed(path, files), path)
    if not path.name.endswith(_IMPORTABLE):
        raise UserError(f"--py-files {path} is no module", remedy="give .py, .zip or .whl files, or a folder")
    return _code(path.name, _read(path, "--py-files"), path)


def _archive(path: Path) -> CodeArchive:
    content = _read(path, "--archives")
    if path.suffix == ".zip":
        return _code(f"{path.stem}.tar.gz", _unzipped(content, path), path)
    if not path.name.endswith(tuple(end for end in CODE_ENDINGS if end not in _IMPORTABLE)):
        raise UserError(
            f"--archives {path} is no archive", remedy="give a .zip, .tar, .tar.gz, .tar.bz2 or .tar.xz file"
        )
    return _code(path.name, content, path)


def _code(name: str, content: bytes, path: Path) -> CodeArchive:
    try:
        return CodeArchive.of(name, content)
    except ValueError as error:
        remedy = "letters, digits, spaces and . _ + - make a name"
        raise UserError(f"{path}: {name!r} cannot be a file's name on other hosts", remedy=remedy) from error


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{option} {path} cannot be read: {error.strerror}") from error


def _packed(folder: Path, files: Sequence[Path]) -> bytes:
    """Packs the files. Equal files yield equal bytes: times and owners are not stored."""
    if len(files) > FILES_MAX:
        raise UserError(f"{folder} has {len(files):,} files, and at most {FILES_MAX:,} travel with a job")
    return _tar((path.relative_to(folder).as_posix(), _read(path, "code")) for path in files)


def _unzipped(content: bytes, path: Path) -> bytes:
    """A zip as a tar, because slots import from zips in place and unpack only tars."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
            return _tar((each.filename, archive.read(each)) for each in members)
    except zipfile.BadZipFile as error:
        raise UserError(f"--archives {path} is no zip file: {error}") from error


def _tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    import gzip

    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as gz, tarfile.open(fileobj=gz, mode="w") as archive:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size, about.mode = len(content), 0o644
            archive.addfile(about, io.BytesIO(content))
    return packed.getvalue()
