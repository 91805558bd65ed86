"""Where tokens come from, how long they are kept, and what is said when there is none."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import ExternalError
from headrace_connectors.kafka import KafkaSinkConfig, KafkaSourceConfig
from headrace_connectors.kafka.clients.access_tokens import (
    AccessTokens,
    TokenSettings,
    oidc_settings,
    unsecured_settings,
)
from support.certificates import Authority
from support.kafka.token_endpoint import TokenEndpoint, token_endpoint


class Clock:
    """Set by hand."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as running:
        yield running


def claims_of(token: str) -> Any:
    head, payload, signature = token.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    assert signature == ""
    return json.loads(base64.urlsafe_b64decode(payload + "=="))


def test_unsigned_tokens_are_made_here_and_renewed() -> None:
    clock = Clock()
    tokens = AccessTokens(unsecured_settings({"sasl.oauthbearer.config": "principal=ann lifeSeconds=100"}), clock=clock)
    first = tokens.token()
    assert claims_of(first) == {"sub": "ann", "iat": 1_000_000, "exp": 1_000_100}
    clock.now += 79
    assert tokens.token() == first
    clock.now += 2
    assert claims_of(tokens.token())["exp"] == 1_000_181


def test_a_token_is_fetched_once_until_most_of_its_life_is_over(endpoint: TokenEndpoint) -> None:
    endpoint.life_s = 1_000
    tokens = AccessTokens(oidc_settings(endpoint.properties()))
    first = tokens.token()
    assert claims_of(first)["sub"] == "ann"
    assert tokens.token() == first
    assert len(endpoint.issued) == 1
    tokens.forget()
    tokens.token()
    assert len(endpoint.issued) == 2
    # one that is short of its end is not used
    endpoint.life_s = 0
    tokens.forget()
    tokens.token()
    tokens.token()
    assert len(endpoint.issued) == 4


@pytest.mark.parametrize(("code", "retry"), [(503, True), (429, True), (400, False)])
def test_a_provider_that_fails(endpoint: TokenEndpoint, code: int, *, retry: bool) -> None:
    endpoint.fail_with = code
    with pytest.raises(ExternalError, match=f"from 127.0.0.1: it answers {code}") as caught:
        AccessTokens(oidc_settings(endpoint.properties())).token()
    assert caught.value.retry is retry


def test_a_wrong_secret_is_the_users_to_correct_and_is_not_shown(endpoint: TokenEndpoint) -> None:
    with pytest.raises(ExternalError, match="it answers 401") as caught:
        AccessTokens(oidc_settings(endpoint.properties("wr0ng"))).token()
    assert not caught.value.retry
    assert "sasl.oauthbearer.token.endpoint.url" in str(caught.value.remedy)
    assert "wr0ng" not in str(caught.value)


def test_nobody_there_may_pass() -> None:
    settings = TokenSettings(endpoint="http://user:pw@127.0.0.1:1/token", client_id="a", client_secret="b")
    with pytest.raises(ExternalError, match=r"from 127\.0\.0\.1") as caught:
        AccessTokens(settings).token()
    assert caught.value.retry
    assert "pw" not in str(caught.value)


def test_a_bundle_that_is_not_there(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    settings = replace(
        oidc_settings(endpoint.properties()),
        endpoint=endpoint.url.replace("http:", "https:"),
        ca_location=str(tmp_path / "none.pem"),
    )
    with pytest.raises(ExternalError, match="No such file"):
        AccessTokens(settings).token()


def test_a_provider_by_https_is_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with token_endpoint(authority.issue("idp")) as endpoint:
        settings = oidc_settings(endpoint.properties() | {"https.ca.location": str(authority.certificate)})
        assert claims_of(AccessTokens(settings).token())["sub"] == "ann"
        by_text = oidc_settings(endpoint.properties() | {"https.ca.pem": authority.certificate.read_text()})
        assert claims_of(AccessTokens(by_text).token())["sub"] == "ann"
        with pytest.raises(ExternalError, match="CERTIFICATE_VERIFY_FAILED"):
            AccessTokens(oidc_settings(endpoint.properties())).token()


@pytest.mark.parametrize("config", [KafkaSourceConfig, KafkaSinkConfig])
def test_a_login_without_a_source_of_tokens_is_refused(config: Any) -> None:
    """librdkafka alone would wait for a token for ever."""
    given = {"brokers": "b:1", "topic": "t", "properties": {"sasl.mechanism": "OAUTHBEARER"}}
    with pytest.raises(ValueError, match=r"no source of tokens: write sasl\.oauthbearer\.method: oidc"):
        config.model_validate(given)
    given["properties"] = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "OIDC"}
    config.model_validate(given)
