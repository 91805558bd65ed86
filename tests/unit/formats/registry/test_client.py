"""The client on a registry that misbehaves, asks for authentication, or is none: what is raised, and what is sent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError
from headrace.formats.registry import client as client_module
from headrace.formats.registry import id_table
from headrace.formats.registry.access import RegistryAccess
from headrace.formats.registry.client import RegistryClient
from headrace.formats.registry.schemas import Reference, Schema, SchemaUnusableError
from support.certificates import Authority
from support.registry.stand_in import StandIn, Trouble, endless, half, redirect, silence, stand_in, status, text

RECORD = Schema("AVRO", '{"type": "record", "name": "A", "fields": [{"name": "k", "type": "long"}]}')
SECRET = "t0ps3cret"
QUIET_SECONDS = 0.3
"""Of servers that are silent on purpose."""


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as running:
        yield running


@pytest.fixture
def client(registry: StandIn) -> Iterator[RegistryClient]:
    opened = RegistryClient(RegistryAccess(registry.url))
    yield opened
    opened.close()


def raised_by(client: RegistryClient) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        client.schema(1)
    assert client.name in str(caught.value)
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_registry_in_trouble_may_be_asked_again(code: int, registry: StandIn, client: RegistryClient) -> None:
    registry.trouble = status(code, "no luck")
    error = raised_by(client)
    assert isinstance(error, ExternalError)
    assert error.retry
    assert str(code) in error.message
    assert len(registry.requests) == 1, "the client sends a request once"


@pytest.mark.parametrize("trouble", [half, status(503)])
def test_broken_answers_are_no_answers(trouble: Trouble, registry: StandIn, client: RegistryClient) -> None:
    registry.trouble = trouble
    assert raised_by(client).retry
    assert len(registry.requests) == 1


def test_silence_ends(registry: StandIn) -> None:
    registry.trouble = silence
    client = RegistryClient(RegistryAccess(registry.url), quiet_s=QUIET_SECONDS)
    assert isinstance(raised_by(client), UnreachableError)
    client.close()


def test_a_registry_that_does_not_run_is_unreachable() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        client = RegistryClient(RegistryAccess(f"http://127.0.0.1:{held.getsockname()[1]}"))
        assert isinstance(raised_by(client), UnreachableError)
        client.close()


def test_the_next_address_is_asked(registry: StandIn) -> None:
    registry.subjects.register("a-value", {"schema": RECORD.text})
    with stand_in() as broken:
        broken.trouble = status(503, "no luck")
        client = RegistryClient(RegistryAccess(f"{broken.url},{registry.url}"))
        assert client.schema(1) is not None
        client.close()


def test_an_answer_is_bounded(registry: StandIn, client: RegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.trouble = endless
    with pytest.raises(ExternalError, match="more than 16 MiB"):
        client.schema(1)
    monkeypatch.setattr(client_module, "ANSWER_SECONDS_MAX", 0.0)
    assert isinstance(raised_by(client), UnreachableError)


def test_a_packed_answer_is_refused(registry: StandIn, client: RegistryClient) -> None:
    registry.trouble = text(b"\x1f\x8b", {"Content-Encoding": "gzip"})
    assert "packed" in raised_by(client).message
    assert registry.requests[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"7", b'{"schema": 7}', b'{"schema": "x", "references": [{"name": 7}]}', b"null"]
)
def test_what_is_no_registry_is_named(body: bytes, registry: StandIn, client: RegistryClient) -> None:
    registry.trouble = text(body)
    error = raised_by(client)
    assert "no schema registry" in error.message
    assert not error.retry


@pytest.mark.parametrize("trouble", [status(404), status(404, "Not Found")])
def test_only_a_registrys_own_code_says_that_there_is_none(
    trouble: Trouble, registry: StandIn, client: RegistryClient
) -> None:
    assert client.schema(1) is None
    registry.trouble = trouble
    assert "no schema registry" in raised_by(client).message


# ---- secrets -----------------------------------------------------------------------------------------------------


SECRETS = [{"user": "ann", "password": SECRET}, {"token": SECRET}]


@pytest.mark.parametrize("settings", SECRETS)
def test_secrets_open_a_registry_and_are_not_shown(settings: dict[str, str], registry: StandIn) -> None:
    registry.user = ("ann", SECRET) if "user" in settings else None
    registry.token = settings.get("token")
    client = RegistryClient(RegistryAccess(registry.url, **settings))
    assert client.schema(1) is None
    registry.trouble = status(500, f"password {SECRET} for ann")
    assert SECRET not in str(raised_by(client))
    client.close()
    stranger = RegistryClient(RegistryAccess(registry.url))
    registry.trouble = None
    error = raised_by(stranger)
    assert "401" in error.message
    assert not error.retry
    stranger.close()


@pytest.mark.parametrize("settings", SECRETS)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_takes_no_secrets_along(settings: dict[str, str], code: int, registry: StandIn) -> None:
    with stand_in() as other:
        registry.trouble = redirect(f"{other.url}/schemas/ids/1", code)
        client = RegistryClient(RegistryAccess(registry.url, **settings))
        assert "redirects" in raised_by(client).message
        client.close()
        assert other.requests == []


# ---- TLS ---------------------------------------------------------------------------------------------------------


def test_mutual_tls(tmp_path: Path) -> None:
    authority, clients = Authority(tmp_path), Authority(tmp_path, "clients")
    own = clients.issue("job")
    with stand_in(authority.issue("registry"), clients) as registry:
        ca = str(authority.certificate)
        client = RegistryClient(RegistryAccess(registry.url, ca=ca, cert=str(own.certificate), key=str(own.key)))
        assert client.schema(1) is None
        client.close()
        for settings in ({"ca": ca}, {"ca": str(clients.certificate)}, {}):
            stranger = RegistryClient(RegistryAccess(registry.url, **settings))
            assert isinstance(raised_by(stranger), UnreachableError)
            stranger.close()


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no PEM")
    for settings in ({"ca": str(broken)}, {"ca": str(tmp_path / "none.pem")}, {"cert": str(broken)}):
        with pytest.raises(UserError, match="TLS files"):
            RegistryClient(RegistryAccess("https://127.0.0.1:1", **settings))


# ---- schemas that cannot be used ---------------------------------------------------------------------------------


def test_rules_are_refused_by_name(registry: StandIn, client: RegistryClient) -> None:
    rule = {"name": "hide", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": ["PII"]}
    registry.subjects.register("a-value", {"schema": RECORD.text, "ruleSet": {"domainRules": [rule]}})
    with pytest.raises(SchemaUnusableError, match=r"hide \(ENCRYPT\)"):
        client.schema(1)
    registry.subjects.register(
        "b-value", {"schema": RECORD.text, "ruleSet": {"domainRules": [rule | {"disabled": True}]}}
    )
    assert client.schema(2) is not None


def test_references_lead_nowhere_else(registry: StandIn, client: RegistryClient) -> None:
    registry.subjects.register("base", {"schema": RECORD.text})
    for name, subject in (("../../etc/passwd", "base"), ("base.proto", "..")):
        registry.trouble = text(
            b'{"schema": "x", "references": [{"name": "%s", "subject": "%s", "version": 1}]}'
            % (name.encode(), subject.encode())
        )
        with pytest.raises(HeadraceError, match="no name of"):
            client.schema(1)
    assert all(path.startswith("/schemas/ids/1") for path in registry.paths)


def test_a_schema_that_a_subject_refuses_is_an_error_of_the_user(registry: StandIn, client: RegistryClient) -> None:
    client.register_if_missing("a-value", RECORD)
    with pytest.raises(UserError, match="409"):
        client.register_if_missing("a-value", Schema("AVRO", RECORD.text.replace('"long"', '"string"')))


# ---- what the table is told --------------------------------------------------------------------------------------


def test_each_outcome_is_an_event_of_the_table(registry: StandIn, client: RegistryClient) -> None:
    key = id_table.IdKey(client.name, None, 1)
    assert client.answer(key) == id_table.NotFound(key)
    registry.subjects.register("a-value", {"schema": RECORD.text})
    assert isinstance(client.answer(key), id_table.Learned)
    registry.troubles = [status(503, "no luck"), status(401, "no")]
    for _ in range(2):
        assert isinstance(client.answer(key, 0.5), id_table.Failed)
    registry.subjects.register(
        "b-value", {"schema": RECORD.text, "ruleSet": {"domainRules": [{"name": "n", "type": "t"}]}}
    )
    second = id_table.IdKey(client.name, None, 2)
    assert isinstance(client.answer(second), id_table.Unusable)


def test_a_schema_registered_meanwhile_makes_no_id_absent(registry: StandIn, client: RegistryClient) -> None:
    """A follower says "no such schema" of one that was registered a moment ago; time is the test's."""
    registry.subjects.register("a-value", {"schema": RECORD.text})
    registry.subjects.hidden.add(1)
    table, key = id_table.IdTable(), id_table.IdKey(client.name, None, 1)
    (ask,) = table.handle(id_table.Wanted((key,)), 0)
    assert table.handle(client.answer(ask.key), 0) == ()
    registry.subjects.hidden.clear()
    (ask,) = table.handle(id_table.Ticked(), id_table.DOUBT_MS)
    table.handle(client.answer(ask.key), id_table.DOUBT_MS)
    assert isinstance(table.answer(key, id_table.DOUBT_MS), id_table.Known)


def test_a_reference_is_asked_for_with_its_version(registry: StandIn, client: RegistryClient) -> None:
    registry.subjects.register("base", {"schema": RECORD.text})
    user = Schema("AVRO", '{"type": "array", "items": "A"}', (Reference("A", "base", 1),))
    number = client.register_if_missing("user", user)
    whole = client.schema(number)
    assert whole is not None
    assert [(each.name, each.text) for each in whole.imports] == [("A", RECORD.text)]
