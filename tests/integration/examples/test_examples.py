"""Every example runs, on files in a copy of the folder or on the session's broker, and makes what its page says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace_dev.broker import EmbeddedBroker
from headrace_dev.demo.flights import load_flights
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import RUN_TIMES, WAIT_SECONDS
from support.repository import ROOT

pytestmark = pytest.mark.turns(2)

EXAMPLES = ROOT / "examples"
FILES = sorted(path.name for path in EXAMPLES.glob("*.yaml"))

Headrace = Callable[..., str]


@pytest.fixture
def headrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Headrace:
    """Runs a command in a copy of the folder and gives what it printed, what its slot processes printed first."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    for name, text in RUN_TIMES.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "functions", raising=False)

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output
        return capfd.readouterr().out + result.stdout

    return call


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def written(folder: str) -> list[dict[str, object]]:
    return [row for file in sorted(Path(folder).glob("part-*")) for row in lines(file.read_text())]


def rows_of(broker: EmbeddedBroker, topic: str) -> list[dict[str, object]]:
    return [json.loads(record.value or b"null") for record in consume_all(broker, topic)]


def topic_settings(topics: Sequence[tuple[str, str]]) -> list[str]:
    return [part for field, topic in topics for part in ("--set", f"{field}={topic}")]


@pytest.mark.parametrize("file", FILES)
def test_an_example_is_valid_and_explains_itself(headrace: Headrace, file: str) -> None:
    assert "valid" in headrace("validate", file)
    assert json.loads(headrace("explain", file, "--json"))


def test_the_page_names_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text()
    names = {path.name for pattern in ("*.yaml", "*.py") for path in EXAMPLES.glob(pattern)}
    assert {name for name in names if f"]({name})" not in page} == set()


def test_a_function_on_whole_columns(headrace: Headrace) -> None:
    rows = lines(headrace("run", "map_function.yaml"))

    assert len(rows) == 5
    found = {(row["taxi"], str(row["hour"])[11:13]): (row["trips"], row["km"]) for row in rows}
    assert found == {
        ("t1", "08"): (2, 8.6),
        ("t2", "08"): (2, 23.4),
        ("t3", "08"): (1, None),
        ("t1", "09"): (1, 7.7),
        ("t3", "09"): (1, 5.4),
    }


def test_files_in_files_out(headrace: Headrace) -> None:
    assert headrace("test", "files.yaml").endswith("3 passed, 0 failed\n")
    headrace("run", "files.yaml")

    power = {(row["meter"], str(row["window_start"])[11:16]): row["mean_watts"] for row in written("out/power")}
    assert power == {
        ("m1", "08:00"): (410 + 380 + 2210.25) / 3,
        ("m2", "08:00"): 96.25,
        ("m1", "08:15"): 995.0,
        ("m2", "08:15"): 101.0,
        ("m1", "08:30"): 390.0,
    }
    assert written("out/late") == [{"meter": "m2", "at": "2024-05-01T08:10:12.000Z", "watts": 96.0}]
    (unreadable,) = written("out/unreadable")
    assert (unreadable["offset"], unreadable["reason"]) == (5, 'field "watts": expected float64, found "broken"')


@pytest.mark.broker
def test_dead_letters(headrace: Headrace, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BROKERS", broker.bootstrap)
    orders, dead = (create_topic(broker, unique_topic(stem)) for stem in ("orders", "orders-dead"))
    totals, unpriced = unique_topic("order-totals"), unique_topic("orders-unpriced")
    messages = Path("data/orders.jsonl").read_bytes().splitlines()
    produce(broker, orders, messages)

    headrace(
        "run",
        "dead_letters.yaml",
        *topic_settings(
            [
                ("sources.orders.kafka.topic", orders),
                ("sources.orders.on_error.dead_letter", dead),
                ("sinks.totals.kafka.topic", totals),
                ("sinks.unpriced.kafka.topic", unpriced),
            ]
        ),
    )

    letters = consume_all(broker, dead)
    assert [record.value for record in letters] == [messages[2], messages[3], messages[6]]
    headers = [dict(record.headers) for record in letters]
    assert [(h["topic"], h["partition"], h["offset"]) for h in headers] == [
        (orders.encode(), b"0", offset) for offset in (b"2", b"3", b"6")
    ]
    assert all(header["reason"] for header in headers)
    (diverted,) = rows_of(broker, unpriced)
    assert diverted["id"] == 5
    assert diverted["reason"]
    assert {(row["shop"], row["orders"], row["total"]) for row in rows_of(broker, totals)} == {
        ("north", 2, "12.60"),
        ("south", 1, "3.99"),
        ("south", 1, "20.00"),
    }


@pytest.mark.broker
def test_flights(headrace: Headrace, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BROKERS", broker.bootstrap)
    flights = create_topic(broker, unique_topic("flights"), partitions=3)
    delays, late = unique_topic("delays"), unique_topic("flights-late")
    log = load_flights(2000)
    produce(broker, flights, log.messages, partition=log.rows.get_column("partition").to_list())

    topics = [
        ("sources.flights.kafka.topic", flights),
        ("sources.flights.kafka.stop", "latest"),
        ("sinks.delays.kafka.topic", delays),
        ("sinks.flights_late.kafka.topic", late),
    ]
    headrace("run", "flights.yaml", *topic_settings(topics))

    departed = log.rows.height - log.rows.get_column("dep_delay").null_count()
    counted = [row["flights"] for row in rows_of(broker, delays)]
    too_late = len(rows_of(broker, late))
    assert too_late > 0
    assert sum(number for number in counted if isinstance(number, int)) + too_late == departed


def test_an_example_whose_broker_is_away_ends_soon_with_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "backfill" / "expire.py"), "flights", "7"],
        env=os.environ | {"KAFKA_BROKERS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("no Kafka broker answers at 127.0.0.1:1")
