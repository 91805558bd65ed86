"""The client and its table on schema registries: a stand-in for Confluent's, Apicurio, and any at `--registry-url`.

    pytest --full tests/conformance/test_registries.py --registry-url http://host:8081

writes subjects of its own to that registry. `DEVIATIONS` are known differences from Confluent's answers: tests that
fail there, and must. At another registry they may fail.
"""

from __future__ import annotations

import json
import secrets
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import psutil
import pytest

from headrace.core.errors import UserError
from headrace.formats.registry.access import RegistryAccess
from headrace.formats.registry.client import RegistryClient
from headrace.formats.registry.id_table import IdKey, IdTable, Known, Wanted
from headrace.formats.registry.schemas import Reference, Schema, SchemaUnusableError
from support.registry.apicurio import Apicurio, apicurio
from support.registry.stand_in import JSON_TYPE, stand_in

DEVIATIONS: Mapping[str, Mapping[str, str]] = {
    "stand-in": {},
    "apicurio": {
        "test_a_guid_names_the_same_schema": "Apicurio gives no GUIDs",
        "test_rules_are_refused": "Apicurio drops rule sets",
        "test_deleted_versions_can_still_be_read": "Apicurio gives no deleted version, so none that is referred to",
    },
}
UNKNOWN_ID = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry that is asked. Tests use subjects of their own."""

    kind: str
    url: str

    def send(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """What the client has no call for: levels of compatibility, rule sets, deletion."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": JSON_TYPE}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        return found if isinstance(found, dict) else {"answer": found}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Asks the registry at `--registry-url` where one is named."""
    if "registry" in metafunc.fixturenames:
        kinds = ["stand-in", pytest.param("apicurio", marks=pytest.mark.full)]
        kinds += ["url"] if metafunc.config.getoption("--registry-url") else []
        metafunc.parametrize("registry", kinds, indirect=True)


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    kind: str = request.param
    reason = DEVIATIONS.get(kind, DEVIATIONS["apicurio"]).get(request.node.originalname)
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=kind in DEVIATIONS))
    match kind:
        case "stand-in":
            with stand_in() as running:
                yield Registry(kind, running.url)
        case "apicurio":
            yield Registry(kind, request.getfixturevalue("real").url)
        case _:
            yield Registry(kind, request.config.getoption("--registry-url").rstrip("/"))


@pytest.fixture
def client(registry: Registry) -> Iterator[RegistryClient]:
    opened = RegistryClient(RegistryAccess(registry.url), quiet_s=30)
    yield opened
    opened.close()


@pytest.fixture
def name() -> str:
    """Of a subject that no other test has."""
    return f"headrace-{secrets.token_hex(6)}"


def record(name: str, **fields: object) -> Schema:
    """An Avro record, whose name makes its schema a new one. Fields: types; of a list: with null as default."""
    listed = [
        {"name": key, "type": dtype} | ({"default": None} if isinstance(dtype, list) else {})
        for key, dtype in fields.items()
    ]
    return Schema("AVRO", json.dumps({"type": "record", "name": name.replace("-", "_"), "fields": listed}))


def same(text: str, other: str) -> bool:
    return bool(json.loads(text) == json.loads(other))


def test_a_schema_gets_one_id_in_all_subjects(client: RegistryClient, name: str) -> None:
    schema = record(name, k="long")
    number = client.register_if_missing(f"{name}-value", schema)
    assert client.register_if_missing(f"{name}-value", schema) == number
    assert client.register_if_missing(f"{name}-key", schema) == number
    found = client.schema(number)
    assert found is not None
    assert (found.kind, found.imports) == ("AVRO", ())
    assert same(found.text, schema.text)


def test_what_is_not_there_is_none(client: RegistryClient, name: str) -> None:
    assert client.schema(UNKNOWN_ID) is None
    assert client.latest(name) is None
    client.register_if_missing(name, record(name, k="long"))
    assert client.version(name, 77) is None


def test_the_latest_version_is_asked_for_each_time(client: RegistryClient, name: str) -> None:
    first, second = record(name, k="long"), record(name, k="long", n=["null", "string"])
    for number, schema in enumerate((first, second), 1):
        schema_id = client.register_if_missing(name, schema)
        found = client.latest(name)
        assert found is not None
        assert (found.subject, found.version, found.id) == (name, number, schema_id)
        assert same(found.schema.text, schema.text)
    found = client.version(name, 1)
    assert found is not None
    assert same(found.schema.text, first.text)


def test_a_subject_refuses_what_does_not_fit(registry: Registry, client: RegistryClient, name: str) -> None:
    client.register_if_missing(name, record(name, k="long"))
    registry.send("PUT", f"/config/{name}", {"compatibility": "BACKWARD"})
    with pytest.raises(UserError, match="409") as caught:
        client.register_if_missing(name, record(name, k="string", m="int"))
    assert name in caught.value.message


def test_a_broken_schema_is_refused(client: RegistryClient, name: str) -> None:
    with pytest.raises(UserError, match="422"):
        client.register_if_missing(name, Schema("AVRO", '{"type": "recrd"}'))


def test_references_come_with_their_texts(client: RegistryClient, name: str) -> None:
    check_references(client, name, register_referring(client, name))


def test_deleted_versions_can_still_be_read(registry: Registry, client: RegistryClient, name: str) -> None:
    """Records that were written with them stay in topics."""
    number = register_referring(client, name)
    registry.send("DELETE", f"/subjects/{name}-user/versions/1")
    registry.send("DELETE", f"/subjects/{name}-base/versions/1")
    check_references(client, name, number)


def register_referring(client: RegistryClient, name: str) -> int:
    """The id of a schema that refers to the only version of `name`-base."""
    base = record(name, k="long")
    client.register_if_missing(f"{name}-base", base)
    named = Reference(json.loads(base.text)["name"], f"{name}-base", 1)
    user = record(f"{name}-user", b=named.name)
    return client.register_if_missing(f"{name}-user", Schema("AVRO", user.text, (named,)))


def check_references(client: RegistryClient, name: str, number: int) -> None:
    base, found = record(name, k="long"), client.schema(number)
    assert found is not None
    assert [each.name for each in found.imports] == [json.loads(base.text)["name"]]
    assert same(found.imports[0].text, base.text)


def test_protobuf_is_text_with_imports(client: RegistryClient, name: str) -> None:
    package = name.replace("-", "_")
    base = f'syntax = "proto3"; package {package}; message B {{ int32 x = 1; }}'
    user = f'syntax = "proto3"; package {package}; import "{package}/b.proto"; message C {{ B b = 1; }}'
    client.register_if_missing(f"{name}-base", Schema("PROTOBUF", base))
    reference = Reference(f"{package}/b.proto", f"{name}-base", 1)
    number = client.register_if_missing(name, Schema("PROTOBUF", user, (reference,)))
    found = client.schema(number)
    assert found is not None
    assert (found.kind, [each.name for each in found.imports]) == ("PROTOBUF", [reference.name])
    assert "message B" in found.imports[0].text


def test_a_context_has_subjects_of_its_own(registry: Registry, client: RegistryClient, name: str) -> None:
    inside = RegistryClient(RegistryAccess(registry.url, context=name), quiet_s=30)
    number = inside.register_if_missing(name, record(name, k="long"))
    assert client.latest(name) is None
    found = inside.latest(name)
    assert found is not None
    assert found.id == number
    assert inside.schema(number) is not None
    inside.close()


def test_a_guid_names_the_same_schema(registry: Registry, client: RegistryClient, name: str) -> None:
    schema = record(name, k="long")
    client.register_if_missing(name, schema)
    guid = str(registry.send("GET", f"/subjects/{quote(name)}/versions/latest")["guid"])
    found = client.schema(guid)
    assert found is not None
    assert same(found.text, schema.text)
    assert client.schema("00000000-0000-0000-0000-000000000000") is None


def test_rules_are_refused(registry: Registry, client: RegistryClient, name: str) -> None:
    rule = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    body = {"schema": record(name, k="long").text, "ruleSet": {"domainRules": [rule]}}
    number = registry.send("POST", f"/subjects/{name}/versions", body)["id"]
    assert isinstance(number, int)
    with pytest.raises(SchemaUnusableError, match="check"):
        client.schema(number)


def test_the_table_learns_ids(client: RegistryClient, name: str) -> None:
    key = IdKey(client.name, None, client.register_if_missing(name, record(name, k="long")))
    table = IdTable()
    (ask,) = table.handle(Wanted((key,)), 0)
    table.handle(client.answer(ask.key), 0)
    assert isinstance(table.answer(key, 0), Known)


@pytest.mark.full
def test_a_real_registry_listens_on_loopback_only(real: Apicurio) -> None:
    listening = [each.laddr.ip for each in psutil.Process(real.pid).net_connections() if each.status == "LISTEN"]
    assert listening
    # Java's sockets are of IPv6
    assert {each.removeprefix("::ffff:") for each in listening} == {"127.0.0.1"}


@pytest.mark.full
def test_ids_survive_a_crash_of_a_real_registry(real: Apicurio, name: str) -> None:
    client = RegistryClient(RegistryAccess(real.url), quiet_s=30)
    schema, later = record(name, k="long"), record(f"{name}-later", k="long")
    number = client.register_if_missing(name, schema)
    real.kill()
    real.start()
    found = client.schema(number)
    assert found is not None
    assert same(found.text, schema.text)
    assert client.register_if_missing(f"{name}-later", later) > number
    client.close()
