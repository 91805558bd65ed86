"""`headrace replay --against`: history beside what a live run published; what differs is found, row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]
PIPELINE = """
name: minutes
sources:
  orders:
    kafka: {{brokers: "{brokers}", topic: {source}, stop: latest}}
    format: json
    schema:
      shop: string not null
      amount: float64
      at: timestamp not null
    time:
      column: at
steps:
  minutes:
    from: orders
    key_by: [shop]
    window: {{tumbling: 1m}}
    aggregate:
      orders: count(*)
      total: sum(amount)
  totals:
    from: orders
    key_by: [shop]
    aggregate:
      total: sum(amount)
sinks:
  minutes_out:
    from: minutes
    kafka: {{brokers: "{brokers}", topic: {minutes}}}
    format: json
  totals_out:
    from: totals
    kafka: {{brokers: "{brokers}", topic: {totals}, key: [shop], mode: upsert}}
    format: json
"""


@pytest.fixture
def in_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command runs in the session that is there: to start another one takes longer than all the rest."""

    @contextmanager
    def session(*_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("headrace.spark.cluster.session.session", session)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))


@pytest.fixture
def topics(broker: EmbeddedBroker) -> dict[str, str]:
    """Topics of the pipeline, with a history: a minute of three shops after the other."""
    names = {name: create_topic(broker, unique_topic(name), 2) for name in ("source", "minutes", "totals")}
    rows = [
        {"shop": shop, "amount": 0.1 * second, "at": f"2024-03-01T00:0{second // 60}:{second % 60:02d}Z"}
        for second in range(0, 300, 7)
        for shop in ("north", "south", "east")
    ]
    partitions = [number % 2 for number in range(len(rows))]
    produce(broker, names["source"], [json.dumps(row) for row in rows], partition=partitions)
    return names


@pytest.fixture
def file(broker: EmbeddedBroker, topics: dict[str, str], tmp_path: Path) -> str:
    path = tmp_path / "minutes.yaml"
    path.write_text(PIPELINE.format(brokers=broker.bootstrap, **topics))
    return str(path)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def against(file: str, topic: str, sink: str, *more: str) -> tuple[int, dict[str, Any]]:
    result = invoke("replay", file, "--against", topic, "--sink", sink, "--json", *more)
    assert result.stdout, result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.usefixtures("in_session")
def test_a_range_of_a_topic_on_both_engines(broker: EmbeddedBroker, topics: dict[str, str], file: str) -> None:
    verified = invoke("verify", file, "--range", '{"0": 10, "1": 0}..2030-01-01T00:00:00Z', "--json")
    assert verified.exit_code == 0, verified.output
    told = json.loads(verified.stdout)
    assert told["rows_in"] == 119
    assert {sink["sink"]: sink["equal"] for sink in told["sinks"]} == {"minutes_out": 15, "totals_out": 3}
    assert not consume_all(broker, topics["minutes"])


@pytest.mark.usefixtures("in_session")
def test_history_and_what_was_published_live(broker: EmbeddedBroker, topics: dict[str, str], file: str) -> None:
    ran = invoke("run", file, "--threads", "--json")
    assert ran.exit_code == 0, ran.output
    assert against(file, topics["totals"], "totals_out") == (
        0,
        {
            "topic": topics["totals"],
            "sink": "totals_out",
            "same": True,
            "equal": 3,
            "missing": 0,
            "extra": 0,
            "types": [],
            "examples": {"changed": [], "missing": [], "extra": []},
            "records": len(consume_all(broker, topics["totals"])),
            "unreadable": 0,
            "rows_in": 129,
            "late": 0,
        },
    )
    # a key that is deleted does not stand, whatever was published of it before
    produce(broker, topics["totals"], [None], keys=["east"])
    code, told = against(file, topics["totals"], "totals_out")
    assert (code, told["equal"], told["missing"], told["extra"]) == (1, 2, 1, 0)
    assert [row["shop"] for row in told["examples"]["missing"]] == ["east"]
    # one row changed, one missing, one twice, one that is none
    published = sorted(record.value or b"" for record in consume_all(broker, topics["minutes"]))
    assert len(published) == 15
    changed = {**json.loads(published[0]), "orders": 1000}
    other = create_topic(broker, unique_topic("other"))
    values = [json.dumps(changed).encode(), *published[2:], published[-1], b"no row"]
    produce(broker, other, values)
    code, told = against(file, other, "minutes_out", "--final")
    assert code == 1
    assert (told["equal"], told["missing"], told["extra"], told["unreadable"]) == (13, 2, 2, 1)
    assert [pair["columns"] for pair in told["examples"]["changed"]] == [["orders"]]
    assert told["examples"]["missing"][0]["orders"] == json.loads(published[1])["orders"]
    assert told["examples"]["extra"][0]["shop"] == json.loads(published[-1])["shop"]
    # without --final, windows that are open at the cut are not expected
    code, told = against(file, topics["minutes"], "minutes_out")
    assert (code, told["missing"], told["extra"]) == (1, 0, 3)
    shown = invoke("replay", file, "--against", other, "--sink", "minutes_out", "--final")
    assert shown.exit_code == 1
    assert "what may explain it" in shown.stdout
    assert "cannot be read as rows of the sink" in shown.stdout


def test_wrong_use(file: str, topics: dict[str, str]) -> None:
    topic = topics["minutes"]
    assert "give one of them" in invoke("replay", file, "--against", topic, "--follow").output
    assert "keeps no state" in invoke("replay", file, "--against", topic, "--savepoint", "kept").output
