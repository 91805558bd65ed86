"""Writes `headrace.rpc.v1` and `headrace.rpc.messages` from `schemas`: `python -m headrace.rpc.generate [FOLDER]`.

For development: needs grpcio-tools and mypy-protobuf. FOLDER is the import root that gets them; the default is
`platform`, of the repository in whose root this runs.

`messages.py` has a frozen dataclass for each message of the .proto file:

message                      a dataclass with the same fields; its comment is the docstring
message of one oneof `kind`  the union of the oneof's types
optional                     `| None`, default None
repeated                     a tuple, default ()
map<string, Time>            a dict of event times; `Time` itself has no dataclass
any field behind a default   has its type's zero as default
debug_redact                 `repr` leaves the field out
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    SourceCodeInfo,
)

SCHEMAS = Path("schemas")
TARGET = Path("platform")
MESSAGES_PROTO = Path("headrace/rpc/v1/messages.proto")
MESSAGES = Path("headrace/rpc/messages.py")


def generate(root: Path, target: Path) -> None:
    """Writes modules and their types below `target`; `root` is the repository. Raises subprocess.CalledProcessError."""
    protos = sorted(path.relative_to(root / SCHEMAS) for path in (root / SCHEMAS).rglob("*.proto"))
    serving = [path for path in protos if "\nservice " in (root / SCHEMAS / path).read_text()]
    _protoc(root, protos, *_outputs(target, "python", "mypy"))
    _protoc(root, serving, *_outputs(target, "grpc_python", "mypy_grpc"))
    (target / MESSAGES).write_text(_messages_text(root))


def _messages_text(root: Path) -> str:
    with tempfile.NamedTemporaryFile(suffix=".descriptors") as file:
        _protoc(root, [MESSAGES_PROTO], "--include_source_info", f"--descriptor_set_out={file.name}")
        descriptors = FileDescriptorSet.FromString(Path(file.name).read_bytes())
    return dataclasses_text(descriptors.file[0])


def _outputs(target: Path, code: str, types: str) -> tuple[str, str]:
    return f"--{code}_out={target.resolve()}", f"--{types}_out=quiet:{target.resolve()}"


def _protoc(root: Path, protos: list[Path], *options: str) -> None:
    # the plugins of mypy-protobuf are programs beside this interpreter
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMAS}", *options, *map(str, protos)],
        cwd=root,
        env=os.environ | {"PATH": path},
        check=True,
    )


LINE_MAX = 120
TIME = "Time"
"""Stands for `int | None`: a protobuf map holds no value that may be missing."""
_SYNTAX_FIELD, _MESSAGE_FIELD = 12, 4
"""Numbers of FileDescriptorProto's fields: they name source locations."""
_SCALARS = {
    FieldDescriptorProto.TYPE_STRING: ("str", '""'),
    FieldDescriptorProto.TYPE_INT64: ("int", "0"),
    FieldDescriptorProto.TYPE_BOOL: ("bool", "False"),
    FieldDescriptorProto.TYPE_BYTES: ("bytes", 'b""'),
}


def dataclasses_text(proto: FileDescriptorProto) -> str:
    """The module's text, as ruff would format it."""
    places = {tuple(place.path): place for place in proto.source_code_info.location}
    blocks = [
        f"{_docstring(places[_SYNTAX_FIELD,].leading_comments)}\n\n"
        f"# Generated from schemas/{proto.name} by `python -m headrace.rpc.generate`. DO NOT EDIT.\n\n"
        "from __future__ import annotations\n\n"
        "from dataclasses import dataclass, field"
    ]
    for number, message in enumerate(proto.message_type):
        place = places[_MESSAGE_FIELD, number]
        blocks += [_heading(text) for text in place.leading_detached_comments]
        if message.name != TIME:
            blocks.append(_definition(message, place))
    return "\n\n\n".join(blocks) + "\n"


def _heading(comment: str) -> str:
    text = f"# {comment.strip()} "
    return text + "-" * (LINE_MAX - len(text))


def _definition(message: DescriptorProto, place: SourceCodeInfo.Location) -> str:
    if [oneof.name for oneof in message.oneof_decl] == ["kind"]:
        return _union(message.name, [_base(field) for field in message.field])
    docstring = _docstring(place.leading_comments, "    ")
    fields = _fields(message)
    body = f"{docstring}\n\n{fields}" if fields else docstring
    return f"@dataclass(frozen=True, slots=True)\nclass {message.name}:\n{body}"


def _union(name: str, members: list[str]) -> str:
    line = f"{name} = {' | '.join(members)}"
    if len(line) <= LINE_MAX:
        return line
    if len(inner := f"    {' | '.join(members)}") <= LINE_MAX:
        return f"{name} = (\n{inner}\n)"
    listed = "\n    | ".join(members)
    return f"{name} = (\n    {listed}\n)"


def _fields(message: DescriptorProto) -> str:
    lines: list[str] = []
    has_default = False
    for field in message.field:
        type_, default = _type(message, field)
        if default is None and has_default:
            default = _SCALARS[field.type][1]
        has_default = has_default or default is not None
        lines.append(f"    {field.name}: {type_}{_assigned(field, default)}")
    return "\n".join(lines)


def _assigned(field: FieldDescriptorProto, default: str | None) -> str:
    if not field.options.debug_redact:
        return "" if default is None else f" = {default}"
    return " = field(repr=False)" if default is None else f" = field(default={default}, repr=False)"


def _type(message: DescriptorProto, field: FieldDescriptorProto) -> tuple[str, str | None]:
    """The annotation, and the default that the field's own label gives it."""
    if field.proto3_optional:
        return f"{_base(field)} | None", "None"
    if field.label != FieldDescriptorProto.LABEL_REPEATED:
        return _base(field), None
    if any(entry.name == _base(field) and entry.options.map_entry for entry in message.nested_type):
        return "dict[str, int | None]", None
    return f"tuple[{_base(field)}, ...]", "()"


def _base(field: FieldDescriptorProto) -> str:
    return _SCALARS[field.type][0] if field.type in _SCALARS else field.type_name.rpartition(".")[2]


def _docstring(comment: str, indent: str = "") -> str:
    lines = [line.removeprefix(" ").rstrip() for line in comment.strip("\n").splitlines()]
    text = "\n".join(f"{indent}{line}" if line else "" for line in lines).lstrip()
    return f'{indent}"""{text}\n{indent}"""' if len(lines) > 1 else f'{indent}"""{text}"""'


if __name__ == "__main__":
    generate(Path.cwd(), Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
