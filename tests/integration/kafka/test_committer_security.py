"""The committer over TLS and SASL: what librdkafka writes with a pipeline's settings, the committer ends with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from headrace.connect.sink import Committable, SinkContext
from headrace.core.errors import ExternalError, UserError
from headrace.core.types import schema_of
from headrace.processes.ports import free_port
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.transactions.committer import KafkaCommitter
from headrace_connectors.kafka.transactions.txn_admin import require_timeout_allowed
from headrace_dev.broker import EmbeddedBroker
from support.certificates import Authority, Issued
from support.kafka.broker import broker_config, consume_all, create_topic, produce, unique_topic
from support.patience import BROKER_SESSION
from support.processes.running import WAIT_SECONDS, headrace, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

PASSWORD = "s3cret"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker with a listener for each way in, and what its clients need."""

    broker: EmbeddedBroker
    login_port: int
    mutual_port: int
    authority: Path
    client: Issued

    def login(self, user: str = "ann", password: str = PASSWORD) -> dict[str, str]:
        """SASL_SSL with SCRAM-SHA-256."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }

    def mutual(self) -> dict[str, str]:
        """TLS with a certificate of the client's, its key encrypted."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.client.certificate),
            "ssl.key.location": str(self.client.key),
            "ssl.key.password": PASSWORD,
        }

    def mutual_by_text(self) -> dict[str, str]:
        """The same, the files' texts in place of their names."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.pem": self.authority.read_text(),
            "ssl.certificate.pem": self.client.certificate.read_text(),
            "ssl.key.pem": self.client.key.read_text(),
            "ssl.key.password": PASSWORD,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    server, client = authority.issue("broker"), authority.issue("client", password=PASSWORD)
    for attempt in range(5):
        login_port = free_port()
        mutual_port = free_port(other_than=login_port)
        broker = EmbeddedBroker(
            broker_config(
                folder / f"kafka-{attempt}",
                settings={**_settings(login_port, mutual_port, authority, server), **BROKER_SESSION},
            )
        )
        # somebody else may have taken a port that was free
        with suppress(ExternalError, UserError):
            broker.start()
            break
    made = Secured(broker, login_port, mutual_port, authority.certificate, client)
    assert broker.is_running, broker.log.read_text()[-2000:]
    try:
        _make_users(made, "ann", "bob")
        yield made
    finally:
        broker.kill()


def _settings(login_port: int, mutual_port: int, authority: Authority, server: Issued) -> dict[str, str]:
    listeners = f"LOGIN://127.0.0.1:{login_port},MUTUAL://127.0.0.1:{mutual_port}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "LOGIN:SASL_SSL,MUTUAL:SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.login.scram-sha-256.sasl.jaas.config": JAAS,
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:ann;User:CN=client",
    }


def _make_users(secured: Secured, *users: str) -> None:
    """Makes them, and waits until they may come in: the broker hears of them from its controller."""
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wanted = [UserScramCredentialUpsertion(user, credential, PASSWORD.encode()) for user in users]
    for done in admin.alter_user_scram_credentials(wanted).values():  # type: ignore[arg-type]  # a list in its stubs
        done.result()
    for user in users:
        login: dict[str, str | int | float | bool] = {"bootstrap.servers": f"127.0.0.1:{secured.login_port}"}
        AdminClient(login | secured.login(user) | {"log_level": 0}).list_topics(timeout=WAIT_SECONDS)


def _allow(broker: EmbeddedBroker, kind: ResourceType, name: str, pattern: ResourcePatternType) -> None:
    """Lets bob write."""
    allowed = AclBinding(kind, name, pattern, "User:bob", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.create_acls([allowed]).values():
        done.result()


def prepared(bootstrap: str, properties: Mapping[str, str], topic: str, name: str) -> Committable:
    lasting = {"transactional.id": name, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **lasting, **properties})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, f"{number}", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    return Committable("out", 0, 1, {}, name, 10)


def opened(
    bootstrap: str, properties: Mapping[str, str], topic: str, *, patience_s: float = WAIT_SECONDS
) -> KafkaCommitter:
    config = KafkaSinkConfig.model_validate({"brokers": bootstrap, "topic": topic, "properties": dict(properties)})
    context = SinkContext("j", "out", 0, 1, schema_of({"k": "string"}), attempt=1)
    return KafkaCommitter(config, context, patience_s=patience_s)


@pytest.mark.parametrize("way", ["login", "mutual", "mutual_by_text"])
def test_described_committed_fenced(secured: Secured, way: str) -> None:
    properties = getattr(secured, way)()
    bootstrap = f"127.0.0.1:{secured.login_port if way == 'login' else secured.mutual_port}"
    topic = create_topic(secured.broker, unique_topic("secure"))
    names = [f"headrace-{unique_topic('job')}-out-1-0-{lane}" for lane in range(2)]
    decided, fenced = (prepared(bootstrap, properties, topic, name) for name in names)

    config = KafkaSinkConfig.model_validate({"brokers": bootstrap, "topic": topic, "properties": properties})
    require_timeout_allowed(config)
    committer = opened(bootstrap, properties, topic)
    described = committer.describe([decided, fenced])
    assert committer.commit(described[:1]) == []
    committer.fence(names[1:])
    assert committer.commit(described) == [described[1]]
    wait_until(lambda: len(consume_all(secured.broker, topic)) == 10, "what was committed is visible")
    committer.close()


@pytest.mark.parametrize(
    ("changed", "said", "retry"),
    [
        ({"sasl.password": "wrong"}, "refused the login.*[Aa]uthentication", False),
        ({"sasl.mechanism": "PLAIN"}, "refused the login.*SaslMechanism", False),
        ({"ssl.ca.location": "probe"}, "CERTIFICATE_VERIFY_FAILED", True),
    ],
)
def test_a_login_that_is_refused_is_told(secured: Secured, changed: dict[str, str], said: str, *, retry: bool) -> None:
    error = refusal(secured.login_port, secured.login() | changed, said)
    assert error.retry is retry
    assert PASSWORD not in str(error)


def test_a_listener_of_another_kind_is_told(secured: Secured) -> None:
    refusal(secured.broker.port, secured.login(), r"no TLS with 127\.0\.0\.1")


def refusal(port: int, properties: Mapping[str, str], said: str) -> ExternalError:
    """What a committer is told there, which matches `said`. Without patience it may not come to be told."""
    for patience_s in (0.5, 10.0, 60.0):
        committer = opened(f"127.0.0.1:{port}", properties, "t", patience_s=patience_s)
        with pytest.raises(ExternalError) as caught:
            committer.fence(["headrace-j-out-1-0-0"])
        committer.close()
        if re.search(said, str(caught.value)):
            break
    assert re.search(said, str(caught.value))
    return caught.value


def test_without_an_acl_the_remedy_names_it_and_with_it_a_prefix_is_enough(secured: Secured) -> None:
    bootstrap = f"127.0.0.1:{secured.login_port}"
    topic = create_topic(secured.broker, unique_topic("secure"))
    there = prepared(bootstrap, secured.login(), topic, f"headrace-{unique_topic('job')}-out-1-0-0")
    committer = opened(bootstrap, secured.login("bob"), topic)
    for call in (lambda: committer.describe([there]), lambda: committer.fence([there.name])):
        with pytest.raises(ExternalError, match="denies access to transaction headrace-") as caught:
            call()
        assert not caught.value.retry
        assert "WRITE and DESCRIBE on TransactionalId with the prefix headrace-" in str(caught.value.remedy)

    _allow(secured.broker, ResourceType.TRANSACTIONAL_ID, "headrace-", ResourcePatternType.PREFIXED)
    denied_until_known(committer, there, "lacks DESCRIBE on the topic", before="denies access to transaction")
    # who may write to the topic, as the sink's login may, may describe it
    _allow(secured.broker, ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    denied_until_known(committer, there, "", before="lacks DESCRIBE on the topic")
    assert committer.commit(committer.describe([there])) == []
    committer.fence([there.name])
    # settings of brokers are for cluster admins: who may not ask is believed
    config = KafkaSinkConfig.model_validate(
        {"brokers": bootstrap, "topic": topic, "properties": secured.login("bob"), "transaction_timeout": "9h"}
    )
    require_timeout_allowed(config)
    committer.close()


def denied_until_known(committer: KafkaCommitter, prepared: Committable, said: str, *, before: str) -> None:
    """A broker hears of an ACL a moment after it was made: until then it says what it said `before`."""

    def told() -> str:
        try:
            committer.describe([prepared])
        except ExternalError as error:
            return str(error)
        return ""

    wait_until(lambda: before not in told(), "the broker knows the ACL")
    assert said in told()
    assert bool(said) == bool(told())


def test_a_whole_job_logs_in(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reader, writer, committer, and the processes between: the password comes from the environment, and stays in."""
    given, made = (create_topic(secured.broker, unique_topic(each)) for each in ("given", "made"))
    produce(secured.broker, given, [b'{"n": %d}' % number for number in range(50)])
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    kafka = {
        "brokers": f"127.0.0.1:{secured.login_port}",
        "properties": secured.login(password="${KAFKA_PASSWORD}"),
    }
    pipeline = {
        "name": "secured",
        "sources": {
            "rows": {
                "kafka": kafka | {"topic": given, "stop": "latest"},
                "format": "json",
                "schema": {"n": "int64 not null"},
            }
        },
        "sinks": {
            "out": {"from": "rows", "kafka": kafka | {"topic": made, "delivery": "exactly-once"}, "format": "json"}
        },
    }
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline))

    done = headrace(["run", "p.yaml", "--json"], tmp_path)

    assert done.code == 0, done.err
    assert done.json["state"] == "FINISHED"
    found = sorted(json.loads(record.value or b"")["n"] for record in consume_all(secured.broker, made))
    assert found == list(range(50))
    assert PASSWORD not in done.out + done.err
    kept = [
        path for path in (tmp_path / "home").rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]
    assert kept == []
