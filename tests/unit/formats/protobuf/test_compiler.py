"""protoc compiles sources of files and of registries, in a process of its own with a time limit."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from headrace.core.errors import ExternalError, UserError
from headrace.formats.protobuf import compiler
from headrace.formats.protobuf.columns import columns_of
from headrace.formats.protobuf.compiler import compile_file, compiled
from headrace.formats.protobuf.descriptors import ProtobufSchema
from headrace.formats.protobuf.texts import schema_of
from headrace.formats.registry.schemas import Import, SchemaUnusableError, WholeSchema

INNER = 'syntax = "proto3"; package in; message Inner { int32 x = 1; }'
MIDDLE = 'syntax = "proto3"; package in; import "in/inner.proto"; message Middle { Inner inner = 1; }'
OUTER = 'syntax = "proto3"; import "in/middle.proto"; message Outer { in.Middle middle = 1; }'


def whole(text: str, **imports: str) -> WholeSchema:
    return WholeSchema("PROTOBUF", text, tuple(Import(f"in/{name}.proto", text) for name, text in imports.items()))


def described(name: str, *imports: str, field_type: str = "") -> str:
    """The text that Confluent's Python client registers for a message with one field."""
    made = FileDescriptorProto(name="x", package="in", syntax="proto3", dependency=imports)
    field = made.message_type.add(name=name).field.add(name="inner", number=1, label=1)
    if field_type:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, field_type
    else:
        field.type = FieldDescriptorProto.TYPE_INT32
    return base64.b64encode(made.SerializeToString()).decode()


def test_a_file_with_imports_beside_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/inner.proto").write_text(INNER)
    (tmp_path / "in/middle.proto").write_text(MIDDLE)
    (tmp_path / "outer.proto").write_text(OUTER)
    message = ProtobufSchema.parse(compile_file(tmp_path / "outer.proto")).message()
    assert str(columns_of(message)) == "middle: {inner: {x: int32 not null}}"


def test_google_and_confluent_types_need_no_reference() -> None:
    text = """
        edition = "2023";
        import "google/protobuf/timestamp.proto";
        import "google/type/money.proto";
        import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        message M {
          google.protobuf.Timestamp at = 1;
          google.type.Money paid = 2 [(confluent.field_meta).doc = "in full"];
          confluent.type.Decimal rate = 3;
        }
    """
    schema = compiled(whole(text))
    columns = columns_of(schema_of(schema).message_at([0]))
    assert [item.name for item in columns] == ["at", "paid", "rate"]
    assert all(not each.name.startswith("google/protobuf/") for each in schema.imports)


def test_references_as_sources_and_as_descriptors() -> None:
    inner, middle = described("Inner"), described("Middle", "in/inner.proto", field_type=".in.Inner")
    columns = set()
    for first, second in ((INNER, MIDDLE), (inner, MIDDLE), (INNER.replace("int32 x", "int32 inner"), middle)):
        schema = compiled(whole(OUTER, inner=first, middle=second))
        assert schema == compiled(schema)
        columns.add(str(columns_of(schema_of(schema).message_at([0]))).replace("x:", "inner:"))
    assert columns == {"middle: {inner: {inner: int32 not null}}"}


def test_descriptors_alone_need_no_protoc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "find_spec", lambda _: None)
    schema = compiled(whole(described("Middle", "in/inner.proto", field_type=".in.Inner"), inner=described("Inner")))
    assert schema_of(schema).message_at([0]).name == "in.Middle"
    with pytest.raises(UserError, match=r"headrace\[protobuf\]"):
        compiled(whole(INNER))


def test_an_import_that_only_a_descriptor_names() -> None:
    made = FileDescriptorProto(name="x", syntax="proto3", dependency=["google/type/date.proto"])
    made.message_type.add(name="M").field.add(name="a", number=1, type=11, type_name=".google.type.Date", label=1)
    schema = compiled(whole(base64.b64encode(made.SerializeToString()).decode()))
    assert "month" in str(columns_of(schema_of(schema).message_at([0])))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('syntax = "proto3";\nmessage M {\n  int32 a = ;\n}', "schema.proto:3:13: Expected field number."),
        ('syntax = "proto3";\nimport "in/none.proto";', "in/none.proto: File not found."),
        ('syntax = "proto3";\nmessage M {', "schema.proto:2:12: "),
        ("message", "Protobuf: schema.proto:1:8: Expected message name."),
        ('syntax = "proto3";\nmessage M { Nope a = 1; }', 'schema.proto:2:13: "Nope" is not defined.'),
    ],
)
def test_errors_have_their_place(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        compiled(whole(text))
    assert message in str(refused.value)
    assert "headrace-protobuf-" not in str(refused.value)
    assert "correct the source" in str(refused.value)


def test_errors_of_a_file_have_its_name(tmp_path: Path) -> None:
    (tmp_path / "shop.proto").write_text('syntax = "proto3"; messag M {}')
    with pytest.raises(UserError, match=r"Protobuf: shop\.proto:1:20: "):
        compile_file(tmp_path / "shop.proto")
    with pytest.raises(UserError, match="there is no file"):
        compile_file(tmp_path / "none.proto")


def test_protoc_has_a_time_limit() -> None:
    with pytest.raises(ExternalError, match="took more than") as late:
        compiled(whole(INNER), limit_s=0.001)
    assert late.value.retry


@pytest.mark.parametrize("name", ["../out.proto", "/etc/x.proto", "a/../../x.proto"])
def test_imports_never_lead_out_of_their_folder(name: str) -> None:
    with pytest.raises(SchemaUnusableError):
        compiled(WholeSchema("PROTOBUF", OUTER, (Import(name, INNER),)))


@pytest.mark.parametrize("name", ["-Iout", "@flags", "--plugin=x"])
def test_imports_are_no_flags_of_protoc(name: str) -> None:
    with pytest.raises(UserError, match="no name of a source"):
        compiled(WholeSchema("PROTOBUF", INNER, (Import(name, INNER),)))


def test_a_source_is_never_run_as_a_module(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    imports = (Import("grpc_tools/protoc.py", f"open({str(trace)!r}, 'w')"), Import("grpc_tools/__init__.py", ""))
    with pytest.raises(UserError, match="Protobuf: "):
        compiled(WholeSchema("PROTOBUF", INNER, imports))
    assert not trace.exists()


def test_what_is_not_compiled_is_no_schema() -> None:
    with pytest.raises(UserError, match="not compiled"):
        schema_of(whole(INNER))
