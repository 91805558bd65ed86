"""Compiles .proto sources to descriptors with protoc, which the extra `protobuf` brings (grpcio-tools).

protoc runs in a child process with a time limit: sources of a registry are not trusted, and it reports errors on its
standard error only, which threads share. Not for a slot: what it returns needs no compiler.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from headrace.core.errors import ExternalError, UserError
from headrace.formats.protobuf.descriptors import (
    SET_BYTES_MAX,
    FileDescriptor,
    google_files,
    parse_set,
    with_imports,
)
from headrace.formats.protobuf.texts import MAIN_FILE, divided, encoded
from headrace.formats.registry.references import check_name
from headrace.formats.registry.schemas import Import, WholeSchema

COMPILE_SECONDS = 10.0
"""Time limit of protoc: a source takes some milliseconds, and the start of its process up to a second."""
_ERRORS_SHOWN_MAX = 5
_LINE_SHOWN_MAX = 300
_WARNING = re.compile(r"^WARNING: |^[IW]\d{4} |: warning: ")

CONFLUENT_SOURCES = {
    "confluent/meta.proto": """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
}
"""Files that Confluent's registry has under these names, so that schemas import them without a reference."""


def compile_file(path: Path, *, limit_s: float = COMPILE_SECONDS) -> bytes:
    """The FileDescriptorSet of a .proto file and its imports, which lie in its folder or below it.

    Raises UserError with file, line and column of what protoc refuses, ExternalError if it takes too long.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    files = _protoc([path.name], [path.parent], (), limit_s)
    return FileDescriptorSet(file=files).SerializeToString()


def compiled(schema: WholeSchema, *, limit_s: float = COMPILE_SECONDS) -> WholeSchema:
    """The same schema as base64 descriptors, which `texts.schema_of` takes. Texts that are descriptors need no protoc.

    Raises as `compile_file` does, and SchemaUnusableError for an import whose name leads out of a folder.
    """
    main = MAIN_FILE
    while any(each.name == main for each in schema.imports):
        main = f"main_{main}"
    texts = {each.name: each.text for each in schema.imports if each.name not in google_files()} | {main: schema.text}
    files, sources = divided(texts)
    missing = {name for each in files for name in each.dependency if name not in texts and name not in google_files()}
    if sources or missing:
        # what is compiled comes with all of its imports, so that of the others some come again
        known = {each.name: each for each in files}
        known.update((each.name, each) for each in _compile_sources(sources, missing, files, limit_s))
        files = list(known.values())
    ordered = [each for each in with_imports(files) if each.name not in google_files()]
    imports = [Import(each.name, encoded(each)) for each in ordered if each.name != main]
    return WholeSchema("PROTOBUF", next(encoded(each) for each in ordered if each.name == main), tuple(imports))


def _compile_sources(
    sources: Mapping[str, str], missing: set[str], files: Sequence[FileDescriptor], limit_s: float
) -> list[FileDescriptor]:
    """The descriptors of sources and of their imports; `missing` are imports that descriptors name."""
    for name in (*sources, *missing):
        check_name(name)
    with TemporaryDirectory(prefix="headrace-protobuf-") as folder:
        own = Path(folder, "own")
        for name, text in sources.items():
            _write(own / name, text)
        return _protoc([*sources, *sorted(missing)], [own], files, limit_s)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as cause:
        raise ExternalError(f"Protobuf: the source {path.name[:80]!r} cannot be written: {cause.strerror}") from cause


def _protoc(
    names: Sequence[str], folders: Sequence[Path], known: Sequence[FileDescriptor], limit_s: float
) -> list[FileDescriptor]:
    """The descriptors of the files with these names below the folders, and of what they import.

    known   descriptors that they may import, too
    """
    for name in names:
        # to protoc these are flags, and files of flags
        if name.startswith(("-", "@")):
            raise UserError(f"Protobuf: {name!r} is no name of a source", remedy="rename it: it begins with - or @")
    with TemporaryDirectory(prefix="headrace-protobuf-") as folder:
        out, extra, confluent = Path(folder, "out"), Path(folder, "known"), Path(folder, "confluent")
        for name, text in CONFLUENT_SOURCES.items():
            _write(confluent / name, text)
        arguments = [f"--proto_path={each}" for each in (*folders, confluent, *_installed_sources())]
        if known:
            extra.write_bytes(FileDescriptorSet(file=known).SerializeToString())
            arguments.append(f"--descriptor_set_in={extra}")
        arguments += ["--include_imports", f"--descriptor_set_out={out}", *names]
        _run(arguments, folders, limit_s)
        if out.stat().st_size > SET_BYTES_MAX:
            raise UserError(f"{names[0]}: descriptors of more than {SET_BYTES_MAX >> 20} MiB")
        return parse_set(out.read_bytes())


def _installed_sources() -> list[Path]:
    """The folder of Google's common types (`google/type`), if they are installed."""
    google = find_spec("google.type")
    places = google.submodule_search_locations if google is not None else None
    return [Path(each).parent.parent for each in places or ()][:1]


def _run(arguments: Sequence[str], folders: Sequence[Path], limit_s: float) -> None:
    if find_spec("grpc_tools") is None:
        raise UserError(
            "a .proto source is compiled by protoc, which is not installed", remedy="pip install 'headrace[protobuf]'"
        )
    # -P: a folder with a source named grpc_tools/protoc.py must not be a place of modules
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *arguments]
    try:
        run = subprocess.run(command, capture_output=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as cause:
        raise ExternalError(
            f"protoc took more than {limit_s:g} s for a Protobuf schema", remedy="simplify the schema", retry=True
        ) from cause
    if run.returncode != 0:
        output = run.stderr.decode(errors="replace")
        for each in folders:
            output = output.replace(f"{each}/", "")
        raise UserError(_errors(output), remedy=_REMEDY)


_REMEDY = "correct the source, and put what it imports into its folder or, in a registry, into its references"


def _errors(output: str) -> str:
    """The first errors of protoc: `shop.proto:3:5: Expected ";".`"""
    lines = [line for line in output.splitlines() if line.strip() and not _WARNING.search(line)]
    shown = "; ".join(line[:_LINE_SHOWN_MAX] for line in lines[:_ERRORS_SHOWN_MAX])
    more = f" (and {len(lines) - _ERRORS_SHOWN_MAX} lines more)" if len(lines) > _ERRORS_SHOWN_MAX else ""
    return f"Protobuf: {shown}{more}" if shown else "Protobuf: protoc failed without a reason"
