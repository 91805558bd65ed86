"""A .proto file as the text of a module of frozen dataclasses: the Python form of control messages. Pure.

message                      a dataclass with the same fields; its comment is the docstring
message of one oneof `kind`  the union of the oneof's types
optional                     `| None`, default None
repeated                     a tuple, default ()
map<string, Time>            a dict of event times; `Time` itself has no dataclass
any field behind a default   has its type's zero as default
debug_redact                 `repr` leaves the field out
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, SourceCodeInfo

LINE_MAX = 120
TIME = "Time"
"""Stands for `int | None`: a protobuf map holds no value that may be missing."""
_SYNTAX_FIELD, _MESSAGE_FIELD = 12, 4
"""Numbers of FileDescriptorProto's fields: what source locations are named by."""
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
