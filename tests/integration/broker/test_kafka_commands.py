"""`headrace kafka`, run as a user runs it, with a home of its own."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.development.kafka import app
from headrace_dev.broker import EmbeddedBroker
from headrace_dev.broker.process import BrokerProcess
from support.kafka.broker import create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, wait_until
from support.storage.permissions import open_to_others

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

"""What a command waits for one answer where the broker may stand still for a while."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home without a broker; whatever a test leaves running is stopped."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KAFKA_BROKERS", raising=False)
    yield tmp_path / "home"
    run("down")


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)


def document(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@contextmanager
def nobody_listens() -> Iterator[str]:
    """An address where nothing answers, and nobody else begins to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_topics_survive_a_crash_and_up_twice_is_harmless(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = up_with_a_topic(home, monkeypatch)
    process = BrokerProcess(first["pid"], home / "kafka" / "data")
    os.kill(first["pid"], signal.SIGKILL)
    assert process.wait_gone(WAIT_SECONDS)

    second = document("up", "--port", str(first["port"]))

    assert second["started"]
    assert second["bootstrap"] == first["bootstrap"]
    assert second["pid"] != first["pid"]
    assert document("topics") == {"topics": [{"name": "flights", "partitions": 3, "messages": 3}]}
    assert sorted(run("consume", "flights").stdout.split()) == ["a", "b", "c"]
    up_twice_is_harmless_and_another_port_is_refused(second)
    assert document("down") == {"running": False, "stopped": True}
    assert run("status").exit_code == 3


@pytest.mark.full
def test_topics_survive_down_and_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = up_with_a_topic(home, monkeypatch)
    assert document("down") == {"running": False, "stopped": True}
    assert document("up", "--port", str(first["port"]))["bootstrap"] == first["bootstrap"]
    assert document("topics") == {"topics": [{"name": "flights", "partitions": 3, "messages": 3}]}


def up_with_a_topic(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A broker of the home, with three messages in a topic."""
    monkeypatch.setattr("headrace.local.topics.topics.ANSWER_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr("headrace.local.topics.records._SILENT_SECONDS", WAIT_SECONDS)
    first = document("up", "--port", "0")
    assert first["started"]
    assert first["data"] == str(home / "kafka" / "data")
    run("create", "flights", "--partitions", "3")
    assert run("produce", "flights", stdin="a\nb\nc\n").exit_code == 0
    assert open_to_others(home) == [], "topics, settings and logs are their owner's"
    assert isinstance(first, dict)
    return first


def up_twice_is_harmless_and_another_port_is_refused(first: dict[str, Any]) -> None:
    again = document("up")
    assert again == {**first, "started": False}
    found: dict[str, Any] = {}

    def answers() -> bool:
        found.update(document("status"))
        return bool(found["answering"])

    wait_until(answers, "it answers in the time that a status has")
    assert found == {"answering": True, **{k: v for k, v in first.items() if k != "started"}}
    refused = run("up", "--port", "1")
    assert refused.exit_code == 2
    assert f"already runs at {first['bootstrap']}, not on port 1" in refused.stderr
    assert "headrace kafka down" in refused.stderr


@pytest.mark.usefixtures("home")
def test_a_taken_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = run("up", "--port", str(port))
    assert result.exit_code == 2
    assert f"port {port} on 127.0.0.1 is taken" in result.stderr


@pytest.mark.usefixtures("home")
def test_an_unknown_sample_starts_no_broker() -> None:
    refused = run("up", "--port", "0", "--sample", "flight")
    assert (refused.exit_code, refused.stderr) == (2, "error: there is no sample 'flight'\n  did you mean 'flights'?\n")
    assert run("status").exit_code == 3


@pytest.mark.usefixtures("home")
def test_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.local.topics.topics.ANSWER_SECONDS", 0.5)
    assert run("status").exit_code == 3
    assert json.loads(run("status", "--json").stdout) == {"running": False, "answering": False}
    assert document("down") == {"running": False, "stopped": False}
    with nobody_listens() as address:
        unreachable = run("topics", "--brokers", address)
    assert unreachable.exit_code == 3
    assert "no Kafka broker answers at" in unreachable.stderr


@pytest.fixture
def brokers(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> EmbeddedBroker:
    """The session's broker, as the one that KAFKA_BROKERS names. It may stand still for a while."""
    monkeypatch.setenv("KAFKA_BROKERS", broker.bootstrap)
    monkeypatch.setattr("headrace.local.topics.topics.ANSWER_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr("headrace.local.topics.records._SILENT_SECONDS", WAIT_SECONDS)
    return broker


@pytest.mark.usefixtures("brokers")
def test_what_is_produced_is_consumed() -> None:
    topic = unique_topic()
    assert document("create", topic, "--partitions", "2") == {"topic": topic, "partitions": 2}
    written = run("produce", topic, "--key-separator", "\\t", "--partition", "1", stdin="k\tone\nk\ttwo, é\r\n")
    assert (written.exit_code, written.stderr) == (0, f"2 messages written to {topic}\n")
    assert run("consume", topic, "--keys", "--offsets").stdout == "1:0\tk\tone\n1:1\tk\ttwo, é\n"
    assert run("consume", topic, "--from", "1").stdout == "two, é\n"
    assert run("consume", topic, "-n", "1").stdout == "one\n"
    assert run("consume", topic, "--from", "latest").stdout == ""
    assert run("consume", topic, "--follow", "-n", "2").stdout == "one\ntwo, é\n"


@pytest.mark.usefixtures("brokers")
def test_messages_are_produced_from_a_file(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"first\n\nlast")
    topic = unique_topic()
    run("create", topic, "--partitions", "1")
    assert json.loads(run("produce", topic, str(lines), "--json").stdout) == {"topic": topic, "messages": 3}
    assert run("consume", topic).stdout == "first\n\nlast\n"
    missing = run("produce", topic, str(tmp_path / "nowhere"))
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)


@pytest.mark.usefixtures("brokers")
def test_what_came_before_a_bad_line_is_written() -> None:
    topic = unique_topic()
    run("create", topic, "--partitions", "1")
    for given, line, before in [
        ("b\n", 1, "nothing is"),
        ("a:1\nb\n", 2, "the record before it is"),
        ("a:2\na:3\nb\na:4\n", 3, "the 2 records before it are"),
    ]:
        result = run("produce", topic, "--key-separator", ":", stdin=given)
        message = f"error: line {line} has no key separator ':'; {before} written\n"
        assert (result.exit_code, result.stderr) == (2, message)
    assert run("consume", topic).stdout == "1\n2\n3\n"


def test_records_as_json(brokers: EmbeddedBroker) -> None:
    topic = create_topic(brokers, unique_topic())
    assert document("consume", topic) == {"records": []}
    produce(
        brokers, topic, ["text", b"\xff", None], keys=["k", None, "k"], timestamps=[1, 2, 3],
        headers=[[("h", b"1"), ("h", None)], [], []],
    )  # fmt: skip
    first, second, third = document("consume", topic)["records"]
    assert first == {
        "partition": 0, "offset": 0, "timestamp": 1, "key": "k", "value": "text", "headers": [["h", "1"], ["h", None]],
    }  # fmt: skip
    assert second["value"] == {"base64": base64.b64encode(b"\xff").decode()}
    assert (third["key"], third["value"]) == ("k", None)
    followed = run("consume", topic, "--json", "--follow", "-n", "3").stdout.splitlines()
    assert [json.loads(line)["offset"] for line in followed] == [0, 1, 2]


@pytest.mark.usefixtures("brokers")
def test_one_topic_is_described() -> None:
    topic = unique_topic()
    run("create", topic, "--partitions", "2", "--config", "cleanup.policy=compact", "--config", "segment.ms=60000")
    run("produce", topic, "--partition", "1", "--key-separator", ":", stdin="k:v\n")
    found = document("topics", topic)
    assert found["config"] == {"cleanup.policy": "compact", "segment.ms": "60000"}
    assert [(p["partition"], p["start"], p["end"]) for p in found["partitions"]] == [(0, 0, 0), (1, 0, 1)]
    shown = run("topics", topic).stdout
    assert shown.startswith(f"{topic}: 1 message\n  cleanup.policy=compact\n")


def test_a_topic_is_deleted_and_may_be_made_anew(brokers: EmbeddedBroker) -> None:
    topic = unique_topic("gone")
    assert run("create", topic).exit_code == 0
    run("produce", topic, stdin="one\n")
    again = run("create", topic)
    assert (again.exit_code, f"headrace kafka delete {topic}" in again.stderr) == (2, True)
    asked = run("delete", topic)
    assert asked.exit_code == 2
    assert "holds 1 message," in asked.stderr and "--yes" in asked.stderr
    assert document("delete", topic, "--yes") == {"topic": topic, "topics": [topic]}
    assert run("delete", topic, "--yes").exit_code == 2
    assert run("delete", "__consumer_offsets", "--yes").exit_code == 2
    assert run("create", topic).exit_code == 0
    assert document("consume", topic)["records"] == []


@pytest.mark.usefixtures("brokers")
def test_topics_are_deleted_together_or_not() -> None:
    first, second = unique_topic("gone"), unique_topic("gone")
    for topic in (first, second):
        assert run("create", topic).exit_code == 0
        run("produce", topic, stdin="one\n")
    assert "2 topics" in run("delete", first, second).stderr
    refused = run("delete", first, unique_topic("never-made"), "--yes")
    assert (refused.exit_code, "there is no topic" in refused.stderr) == (2, True)
    left = {topic["name"] for topic in document("topics")["topics"]}
    assert {first, second} <= left, "one that does not exist keeps the others"
    assert document("delete", first, second, first, "--yes") == {"topics": [first, second]}
    left = {topic["name"] for topic in document("topics")["topics"]}
    assert not {first, second} & left


@pytest.mark.usefixtures("brokers")
def test_wrong_use_is_told_with_the_nearest_name() -> None:
    topic = unique_topic("flights")
    run("create", topic, "--partitions", "1")
    for command in (["topics"], ["consume"], ["produce"]):
        result = run(*command, topic[:-1], stdin="")
        assert result.exit_code == 2
        assert result.stderr == f"error: there is no topic {topic[:-1]!r}\n  did you mean {topic!r}?\n"
    for arguments, message in [
        (["create", topic, "--partitions", "1"], "already exists"),
        (["create", unique_topic(), "--partitions", "1", "--config", "nonsense=1"], "nonsense"),
        (["create", unique_topic(), "--partitions", "1", "--config", "nonsense"], "KEY=VALUE"),
        (["produce", topic, "--partition", "9"], "not 9"),
        (["consume", topic, "--from", "somewhere"], "no place to start"),
    ]:
        result = run(*arguments, stdin="")
        assert (result.exit_code, message in result.stderr) == (2, True), result.output
