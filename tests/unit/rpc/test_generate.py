"""The text of generated dataclasses: fields, defaults, unions and comments."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from headrace.rpc.generate import dataclasses_text

REPEATED = FieldDescriptorProto.LABEL_REPEATED
STRING, INT, BOOL = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.TYPE_BOOL
MESSAGE = FieldDescriptorProto.TYPE_MESSAGE


def text_of(*messages: DescriptorProto, comments: dict[int, str] | None = None) -> str:
    """The definitions, without the head of the module."""
    proto = FileDescriptorProto(name="some.proto", message_type=messages)
    proto.source_code_info.location.add(path=[12], leading_comments=" Some messages.\n")
    for number, message in enumerate(messages):
        comment = (comments or {}).get(number, f" {message.name}.\n")
        proto.source_code_info.location.add(path=[4, number], leading_comments=comment)
    head, _, text = dataclasses_text(proto).partition("import dataclass, field\n\n\n")
    assert head.startswith('"""Some messages."""\n\n# Generated from schemas/some.proto')
    return text


def test_a_field_behind_a_default_has_its_zero_as_default() -> None:
    message = DescriptorProto(name="Mixed")
    message.field.add(name="first", type=INT)
    message.field.add(name="left_out", type=STRING, proto3_optional=True)
    message.field.add(name="others", type=MESSAGE, type_name=".p.Mixed", label=REPEATED)
    message.field.add(name="last", type=BOOL)
    assert text_of(message) == (
        '@dataclass(frozen=True, slots=True)\nclass Mixed:\n    """Mixed."""\n\n    first: int\n'
        "    left_out: str | None = None\n    others: tuple[Mixed, ...] = ()\n    last: bool = False\n"
    )


def test_secrets_are_not_shown() -> None:
    message = DescriptorProto(name="Secret")
    message.field.add(name="token", type=STRING).options.debug_redact = True
    assert text_of(message).endswith("    token: str = field(repr=False)\n")


def test_a_map_holds_times_that_may_be_missing() -> None:
    time = DescriptorProto(name="Time")
    heights = DescriptorProto(name="Heights")
    heights.nested_type.add(name="HeightsEntry").options.map_entry = True
    heights.field.add(name="heights", type=MESSAGE, type_name=".p.Heights.HeightsEntry", label=REPEATED)
    text = text_of(time, heights)
    assert text.endswith("    heights: dict[str, int | None]\n")
    assert "class Time" not in text


def test_a_message_of_one_oneof_is_a_union() -> None:
    union = DescriptorProto(name="Word")
    union.oneof_decl.add(name="kind")
    for name in ("Said", "Told"):
        union.field.add(name=name.lower(), type=MESSAGE, type_name=f".p.{name}", oneof_index=0)
    assert text_of(union) == "Word = Said | Told\n"
    for number in range(10):
        union.field.add(name=f"f{number}", type=MESSAGE, type_name=f".p.Further{number}", oneof_index=0)
    assert text_of(union).startswith("Word = (\n    Said\n    | Told\n    | Further0\n")


def test_a_comment_of_several_lines_is_the_docstring() -> None:
    comment = " It is.\n\n name   what it means\n"
    assert text_of(DescriptorProto(name="Empty"), comments={0: comment}) == (
        '@dataclass(frozen=True, slots=True)\nclass Empty:\n    """It is.\n\n    name   what it means\n    """\n'
    )
