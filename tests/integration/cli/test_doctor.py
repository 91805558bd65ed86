"""`headrace doctor` with real brokers, one of them with ACLs, and with brokers and folders that are away."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from headrace.processes.ports import free_port
from headrace_dev.broker import EmbeddedBroker
from support.clusters.session import Cluster
from support.kafka.broker import consume_all, create_topic, produce, running_broker, unique_topic
from support.processes.running import finish, headrace, start_with, wait_until

PIPELINE = """
name: counted
checkpoint: {{storage: {storage}}}
sources:
  rides:
    kafka: {{brokers: "{brokers}", topic: {topic}, properties: {properties}}}
    format: json
    schema: {{n: int64}}
sinks:
  out:
    from: rides
    kafka: {{brokers: "{brokers}", topic: {out}, delivery: exactly-once, properties: {properties}}}
    format: json
"""


def written(folder: Path, brokers: str, topic: str, out: str, **more: Any) -> None:
    fields = {"storage": str(folder / "checkpoints"), "properties": "{}"} | more
    text = PIPELINE.format(brokers=brokers, topic=topic, out=out, **fields)
    (folder / "p.yaml").write_text(text)


def examined(folder: Path, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    ended = headrace(["doctor", *arguments, "--json", "--timeout", "60"], folder)
    assert ended.out, ended.err
    assert ended.json["ok"] == (ended.code == 0)
    return ended.code, {each["check"]: each for each in ended.json["checks"]}


@pytest.mark.broker
def test_all_is_well_and_nothing_is_left(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic, out = (create_topic(broker, unique_topic(name), 2) for name in ("rides", "out"))
    produce(broker, topic, [b'{"n": 1}'])
    written(tmp_path, broker.bootstrap, topic, out)
    code, found = examined(tmp_path, "p.yaml")
    assert code == 0, found
    subjects = {
        "pipeline p.yaml",
        f"brokers {broker.bootstrap}",
        f"topic {topic}",
        f"topic {out}",
        f"clock of topic {topic}",
        f"transactions at {broker.bootstrap}",
        f"storage {tmp_path / 'checkpoints'}",
    }
    assert {subject: found[subject]["text"] for subject in subjects if found[subject]["status"] != "ok"} == {}
    assert consume_all(broker, out) == []
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.mark.broker
def test_a_missing_topic_has_its_remedy(broker: EmbeddedBroker, tmp_path: Path) -> None:
    out = create_topic(broker, unique_topic("out"))
    written(tmp_path, broker.bootstrap, f"{out}x", out)
    code, found = examined(tmp_path, "p.yaml")
    assert code == 1
    missing = found[f"topic {out}x"]
    assert (missing["status"], missing["text"]) == ("failed", "it does not exist")
    assert f"did you mean '{out}'" in missing["remedy"]
    assert f"headrace kafka create {out}x" in missing["remedy"]
    text = headrace(["doctor", "p.yaml"], tmp_path).out
    assert f"failed       topic {out}x: it does not exist\n" in text


@pytest.mark.broker
def test_brokers_without_a_pipeline(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = create_topic(broker, unique_topic())
    produce(broker, topic, [b"x"])
    code, found = examined(tmp_path, "--brokers", broker.bootstrap)
    assert code == 0, found
    assert found[f"brokers {broker.bootstrap}"]["text"].startswith("1 broker answers, librdkafka ")
    assert found["topics .+"]["status"] == "ok"


@pytest.mark.broker
def test_records_of_the_future_are_told(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic, out = (create_topic(broker, unique_topic()) for _ in range(2))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"{}", timestamp=int(time.time() * 1_000) + 600_000)
    assert producer.flush(60) == 0
    written(tmp_path, broker.bootstrap, topic, out)
    code, found = examined(tmp_path, "p.yaml")
    assert code == 0, "a warning is no failure"
    assert found[f"clock of topic {topic}"]["status"] == "warning"


def test_brokers_that_are_away_are_one_failure_and_hide_nothing(tmp_path: Path) -> None:
    written(tmp_path, "127.0.0.1:1", "rides", "out")
    ended = headrace(["doctor", "p.yaml", "--json", "--timeout", "2"], tmp_path)
    assert ended.code == 1
    found = {each["check"]: each for each in ended.json["checks"]}
    assert found["brokers 127.0.0.1:1"]["status"] == "failed"
    assert "no Kafka broker answers at 127.0.0.1:1" in found["brokers 127.0.0.1:1"]["text"]
    assert "headrace kafka up" in found["brokers 127.0.0.1:1"]["remedy"]
    assert not [check for check in found if check.startswith("topic")]
    assert found[f"storage {tmp_path / 'checkpoints'}"]["status"] == "ok"


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    written(tmp_path, "127.0.0.1:1", "rides", "out", storage=str(tmp_path / "file" / "below"))
    # nobody may make a file in /sys, root neither
    environment = os.environ | {"HEADRACE_HOME": "/sys"}
    ended = finish(start_with(environment, ["doctor", "p.yaml", "--json", "--timeout", "2"], tmp_path))
    found = {each["check"]: each for each in ended.json["checks"]}
    assert found["home /sys"]["status"] == "failed"
    assert found["home /sys"]["text"].startswith("it cannot be written: ")
    storage = found[f"storage {tmp_path / 'file' / 'below'}"]
    assert storage["status"] == "failed"
    assert storage["text"].startswith("write failed: ")
    assert "something on the way there is a file" in storage["remedy"]


def test_every_mistake_of_an_invalid_file(tmp_path: Path) -> None:
    written(tmp_path, "127.0.0.1:1", "rides", "out")
    text = (tmp_path / "p.yaml").read_text()
    (tmp_path / "p.yaml").write_text(text.replace("n: int64", "n: whole").replace("from: rides", "from: riders"))
    ended = headrace(["doctor", "p.yaml"], tmp_path)
    assert ended.code == 1
    assert ended.out.count("failed       pipeline p.yaml: p.yaml:") == 2


@pytest.mark.full
def test_the_coordinator_of_a_cluster(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.start(workers=1, slots=1)
    try:
        code, found = examined(tmp_path)
        url = cluster.client.url
    finally:
        cluster.stop()
    assert code == 0, found
    assert found[f"coordinator {url}"]["text"].endswith("as this client")
    assert found[f"clock of {url}"]["status"] == "ok"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker that lets bob in with a password, and lets him do what ACLs allow."""

    broker: EmbeddedBroker
    address: str

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        allowed = [
            AclBinding(kind, name, ResourcePatternType.PREFIXED, "User:bob", "*", operation, AclPermissionType.ALLOW)
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for done in admin.create_acls(allowed).values():
            done.result()

    def login(self, password: str = "s3cret") -> str:
        return (
            "{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: bob, "
            f"sasl.password: {password}}}"
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    address = f"127.0.0.1:{free_port()}"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="s3cret";'
    settings = {
        "listeners": f"LOGIN://{address}",
        "advertised.listeners": f"LOGIN://{address}",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with running_broker(tmp_path_factory.mktemp("guarded") / "kafka", settings=settings) as running:
        yield Guarded(running, address)


@pytest.mark.full
@pytest.mark.broker
def test_rights_that_acls_do_not_give(guarded: Guarded, tmp_path: Path) -> None:
    stem = unique_topic("acl")
    topic, out = (create_topic(guarded.broker, f"{stem}-{name}") for name in ("rides", "out"))
    guarded.allow(ResourceType.TOPIC, stem, AclOperation.DESCRIBE)
    written(tmp_path, guarded.address, topic, out, properties=guarded.login())
    code, found = examined(tmp_path, "p.yaml")
    assert code == 1
    transactions = found[f"transactions at {guarded.address}"]
    denied = {topic: found[f"topic {topic}"], out: found[f"topic {out}"], "transactions": transactions}
    assert {each["status"] for each in denied.values()} == {"failed"}
    assert f"READ and DESCRIBE on topic {topic}" in denied[topic]["remedy"]
    assert f"WRITE and DESCRIBE on topic {out}" in denied[out]["remedy"]
    assert "WRITE on TransactionalIds with prefix headrace-" in transactions["remedy"]
    assert found["group headrace-counted-rides"]["status"] == "warning"

    guarded.allow(ResourceType.TOPIC, stem, AclOperation.READ, AclOperation.WRITE)
    guarded.allow(ResourceType.TRANSACTIONAL_ID, "headrace-", AclOperation.WRITE)
    guarded.allow(ResourceType.GROUP, "headrace-", AclOperation.READ)

    def is_allowed() -> bool:
        code, found = examined(tmp_path, "p.yaml")
        print([each for each in found.values() if each["status"] not in {"ok", "not checked"}])  # noqa: T201 - if it fails
        return code == 0 and found["group headrace-counted-rides"]["status"] == "ok"

    wait_until(is_allowed, "the broker has heard of the ACLs")


@pytest.mark.full
@pytest.mark.broker
def test_a_login_that_is_refused(guarded: Guarded, tmp_path: Path) -> None:
    written(tmp_path, guarded.address, "rides", "out", properties=guarded.login("wrong"))
    code, found = examined(tmp_path, "p.yaml")
    assert code == 1
    assert "refused the login" in found[f"brokers {guarded.address}"]["text"]
    assert "s3cret" not in json.dumps(found)
