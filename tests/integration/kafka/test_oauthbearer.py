"""Logins by access tokens: source, sink, committer and admin client of a job, over tokens that expire while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.sink import SinkContext
from headrace.core.errors import ExternalError, UserError
from headrace.core.types import schema_of
from headrace.processes.ports import free_port
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.requests.connection import BrokerConnection
from headrace_connectors.kafka.transactions.committer import KafkaCommitter
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin, require_timeout_allowed
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import broker_config, consume_all, create_topic, produce, unique_topic
from support.kafka.token_endpoint import CLIENT_SECRET, TokenEndpoint, token_endpoint
from support.patience import BROKER_SESSION, SHORT_TOKEN_LIFE_S
from support.processes.running import WAIT_SECONDS, Running, finish, headrace, start, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]

JAAS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker whose second listener wants tokens, and who issues them."""

    broker: EmbeddedBroker
    port: int
    endpoint: TokenEndpoint

    @property
    def bootstrap(self) -> str:
        """The listener that wants tokens."""
        return f"127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    with token_endpoint() as endpoint:
        for attempt in range(5):
            port = free_port()
            settings = {**_settings(port), **BROKER_SESSION}
            broker = EmbeddedBroker(broker_config(folder / f"kafka-{attempt}", settings=settings))
            # somebody else may have taken a port that was free
            with suppress(ExternalError, UserError):
                broker.start()
                break
        assert broker.is_running, broker.log.read_text()[-2000:]
        try:
            yield Guarded(broker, port, endpoint)
        finally:
            broker.kill()


def _settings(port: int) -> dict[str, str]:
    return {
        "listeners": f"TOKENS://127.0.0.1:{port}",
        "advertised.listeners": f"TOKENS://127.0.0.1:{port}",
        "listener.security.protocol.map": "TOKENS:SASL_PLAINTEXT",
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": JAAS,
        # a login ends with its token: the broker hangs up on who does not log in again
        "listener.name.tokens.oauthbearer.connections.max.reauth.ms": "3600000",
    }


UNSECURED = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": "principal=ann",
}


def pipeline(guarded: Guarded, given: str, made: str, properties: Mapping[str, str], stop: Any) -> dict[str, Any]:
    kafka = {"brokers": guarded.bootstrap, "properties": dict(properties)}
    return {
        "name": "tokens",
        "checkpoint": {"interval": "500ms"},
        "sources": {
            "rows": {
                "kafka": kafka | {"topic": given, "stop": stop},
                "format": "json",
                "schema": {"n": "int64 not null"},
            }
        },
        "sinks": {
            "out": {"from": "rows", "kafka": kafka | {"topic": made, "delivery": "exactly-once"}, "format": "json"}
        },
    }


def numbers(guarded: Guarded, topic: str) -> list[int]:
    return sorted(json.loads(record.value or b"")["n"] for record in consume_all(guarded.broker, topic))


def values(begin: int, end: int) -> list[bytes | str | None]:
    return [b'{"n": %d}' % number for number in range(begin, end)]


def test_unsigned_tokens_of_ones_own(guarded: Guarded, tmp_path: Path) -> None:
    given, made = (create_topic(guarded.broker, unique_topic(each)) for each in ("given", "made"))
    produce(guarded.broker, given, values(0, 50))
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline(guarded, given, made, UNSECURED, "latest")))
    done = headrace(["run", "p.yaml", "--json"], tmp_path)
    assert done.code == 0, done.err
    assert numbers(guarded, made) == list(range(50))


def test_a_job_outlives_its_tokens(guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows flow while each client has to renew its token, and log in again, several times; each row is there once."""
    endpoint = guarded.endpoint
    given, made = (create_topic(guarded.broker, unique_topic(each)) for each in ("given", "made"))
    endpoint.life_s = SHORT_TOKEN_LIFE_S
    endpoint.issued.clear()
    monkeypatch.setenv("KAFKA_SECRET", CLIENT_SECRET)
    properties = endpoint.properties(secret="${KAFKA_SECRET}")
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline(guarded, given, made, properties, {"0": 30})))
    process = start(["run", "p.yaml", "--json"], tmp_path)
    try:
        for begin in (0, 10, 20):
            produce(guarded.broker, given, values(begin, begin + 10))
            wait_until(partial(_visible_or_over, process, guarded, made, begin + 10), "what was written is visible")
            if begin < 20:
                assert process.poll() is None, finish(process).err
                # each of the job's clients, of which there are fewer, has needed another one
                wait_until(partial(_issued, endpoint, endpoint.by_librdkafka() + 10), "tokens are renewed")
        done = finish(process)
    finally:
        process.kill()
        process.wait()
        endpoint.life_s = 3_600
    assert done.code == 0, done.err
    assert numbers(guarded, made) == list(range(30))
    # one before the job began, then the committer's own: each had expired before the next batch
    assert endpoint.by_committer() >= 3
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and CLIENT_SECRET.encode() in path.read_bytes()]
    assert kept == []


def _visible_or_over(process: Running, guarded: Guarded, topic: str, end: int) -> bool:
    return process.poll() is not None or numbers(guarded, topic) == list(range(end))


def _issued(endpoint: TokenEndpoint, count: int) -> bool:
    return endpoint.by_librdkafka() >= count


class ClockAhead:
    """Stands in for the module `time`: by so many seconds ahead of it."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


def test_an_admin_client_renews_its_login_before_it_expires(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that the broker allows ends with the token: the client leaves the connection before that.

    The token lives long, and the client's clock goes ahead: one that stands still in the last second of a short life is
    late, and rightly finds its connection ended.
    """
    clock = ClockAhead()
    for module in ("connection", "client"):
        monkeypatch.setattr(f"headrace_connectors.kafka.requests.{module}.time", clock)
    life_s = guarded.endpoint.life_s
    admin = TxnAdmin(guarded.bootstrap, guarded.endpoint.properties(), patience_s=WAIT_SECONDS)

    def connections() -> set[BrokerConnection]:
        assert admin._client is not None
        return set(admin._client._connections.values())

    try:
        assert admin.timeout_max_ms() == 900_000
        first = connections()
        clock.ahead_s = 0.7 * life_s
        assert all(each.usable for each in first)
        clock.ahead_s = 0.9 * life_s
        # the broker, whose clock is right, has not ended them
        assert not any(each.usable for each in first)
        assert admin.timeout_max_ms() == 900_000
        second = connections()
        assert not first & second
        assert all(each.usable for each in second)
    finally:
        admin.close()


def test_a_wrong_secret_is_told(guarded: Guarded) -> None:
    properties = guarded.endpoint.properties(secret="wr0ng")
    config = KafkaSinkConfig.model_validate({"brokers": guarded.bootstrap, "topic": "t", "properties": properties})
    with pytest.raises(ExternalError, match=r"no access token for Kafka from 127\.0\.0\.1: it answers 401") as caught:
        require_timeout_allowed(config)
    assert not caught.value.retry
    assert "wr0ng" not in str(caught.value)


def test_a_token_that_the_broker_does_not_take_is_told(guarded: Guarded) -> None:
    properties = UNSECURED | {"sasl.oauthbearer.config": "principal=ann principalClaimName=who"}
    config = KafkaSinkConfig.model_validate({"brokers": guarded.bootstrap, "topic": "t", "properties": properties})
    context = SinkContext("j", "out", 0, 1, schema_of({"k": "string"}), attempt=1)
    committer = KafkaCommitter(config, context)
    with pytest.raises(ExternalError, match=r"refused the login.*authentication failed") as caught:
        committer.fence(["headrace-j-out-1-0-0"])
    assert not caught.value.retry
    committer.close()
