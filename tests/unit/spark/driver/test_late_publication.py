"""A decision that is taken up so late that Kafka may have forgotten what of it is published: on a real broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import Result

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import AttemptRecord
from headrace.checkpoint.paths import job_url
from headrace.checkpoint.stores.opening import open_store
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError, UserError
from headrace.core.settings import Home
from headrace.execution.planning import JobPlans, plan_sinks
from headrace.plan.physical import SinkSpec
from headrace.spark.driver.publication import require_remembered
from headrace.spark.launch.follow import DriverJournal, FollowOptions, prepare_follow
from headrace.spark.launch.follow import give_up as give_up_job
from headrace.spark.launch.replay import ReplayOptions, prepare
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.publishing.marker import SETTING, USUAL_MS, markers_kept_ms
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, unique_topic
from support.processes.commands import invoked
from support.spark.local_exchange import LocalExchange

ROWS = 20
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


class Dying(LocalExchange):
    """Publishes some of the shares and dies. `shares`: how many."""

    def __init__(self, shares: int) -> None:
        super().__init__(1, retried=0.0)
        self._shares = shares

    def each(self, orders: Sequence[bytes]) -> None:
        """The first shares."""
        super().each(orders[: self._shares])
        raise ExternalError("killed")


class Site:
    """A pipeline of two shares into a topic, and its folder."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self.broker, self.topic = broker, create_topic(broker, unique_topic("late"), 1)
        self.home = folder / "home"
        (folder / "in").mkdir()
        for part in range(2):
            lines = [json.dumps({"n": n}) for n in range(part * ROWS // 2, (part + 1) * ROWS // 2)]
            (folder / "in" / f"{part}.json").write_text("\n".join(lines))
        self.document = {
            "name": "late",
            "parallelism": 2,
            "sources": {
                "rows": {
                    "files": {"path": str(folder / "in" / "*.json"), "partitions": 2},
                    "format": "json",
                    "schema": {"n": "int64"},
                }
            },
            "sinks": {
                "out": {"from": "rows", "kafka": {"brokers": broker.bootstrap, "topic": self.topic}, "format": "json"}
            },
        }
        self.file = folder / "late.yaml"
        self.file.write_text(json.dumps(self.document))

    def replay(self, exchange: LocalExchange, *, allow_repeated: bool = False) -> None:
        options = ReplayOptions(parallelism=2, allow_repeated=allow_repeated)
        prepared = prepare(pipeline_from_dict(self.document), options, Home(self.home))
        prepared.replay(exchange, lambda _: None).run()

    def die(self, *, age_ms: int, shares: int = 1) -> None:
        """A replay that published so many shares, so long ago."""
        with pytest.raises(ExternalError, match="killed"):
            self.replay(Dying(shares))
        (path,) = [each for each in self.home.rglob("journal/*.json") if '"checkpoint"' in each.read_text()[:200]]
        record = json.loads(path.read_text())
        record["at_ms"] = SystemClock().now_ms() - age_ms
        path.write_text(json.dumps(record))

    def numbers(self) -> list[int]:
        return sorted(json.loads(record.value or b"null")["n"] for record in consume_all(self.broker, self.topic))

    def states(self) -> list[str | None]:
        """How the replays ended, in order."""
        jobs = sorted((self.home / "checkpoints").iterdir())
        ends = [JournalStore(open_store(str(job)), "", "").load().finished for job in jobs]
        return [None if end is None else end.state for end in ends]


@pytest.fixture
def site(tmp_path: Path, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    return Site(tmp_path, broker)


def give_up(site: Site) -> Result:
    return invoked("replay", str(site.file), "--give-up", "--json")


@pytest.mark.broker
def test_what_was_decided_of_late_is_published_once(site: Site) -> None:
    site.die(age_ms=6 * DAY_MS)
    site.replay(LocalExchange(1))
    assert site.numbers() == list(range(ROWS))


@pytest.mark.broker
def test_what_was_decided_long_ago_is_for_the_user_to_say(site: Site) -> None:
    site.die(age_ms=9 * DAY_MS)
    out = site.numbers()
    assert len(out) == ROWS // 2
    expired = "decided 9d ago, but sink 'out' keeps the number of published rows for 7d only"
    with pytest.raises(UserError, match=expired) as raised:
        site.replay(LocalExchange(1))
    assert raised.value.remedy is not None
    assert "--allow-repeated-output" in raised.value.remedy
    assert "--give-up" in raised.value.remedy
    assert site.numbers() == out
    # the brokers have not forgotten yet
    site.replay(LocalExchange(1), allow_repeated=True)
    assert site.numbers() == list(range(ROWS))
    assert site.states() == ["FINISHED"]


@pytest.mark.broker
def test_what_is_given_up_is_never_published(site: Site) -> None:
    assert give_up(site).exit_code == 2, "there is nothing"
    site.die(age_ms=9 * DAY_MS)
    out = site.numbers()
    told = give_up(site)
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["rows_given_up"] == ROWS
    assert give_up(site).exit_code == 2, "it has ended"
    assert site.states() == ["CANCELED"]
    assert site.numbers() == out
    assert {path.parent.name for path in site.home.rglob("*") if path.is_file()} == {"journal"}
    # the same command is a new replay then
    site.replay(LocalExchange(1))
    assert site.numbers() == sorted([*out, *range(ROWS)])
    assert site.states() == ["CANCELED", "FINISHED"]


def kafka(kind: type[KafkaSinkConfig], brokers: str) -> KafkaSinkConfig:
    return kind.model_validate({"brokers": brokers, "topic": "t"})


def sink(config: KafkaSinkConfig) -> SinkSpec:
    made = pipeline_from_dict(
        {
            "name": "p",
            "sources": {"r": {"generator": {"rows": 1, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}},
            "sinks": {"out": {"from": "r", "kafka": config.model_dump(exclude_defaults=True), "format": "json"}},
        }
    )
    ((_, spec),) = plan_sinks(JobPlans(made.to_dict()).plan(1))
    return spec


class Remembering(KafkaSinkConfig):
    """Brokers that keep markers for a day."""

    def remembers_ms(self) -> int:
        return DAY_MS


@pytest.mark.parametrize(("age_ms", "known"), [(0, True), (22 * 3_600_000, True), (23 * 3_600_000, False)])
def test_an_hour_is_left_for_clocks_that_differ(age_ms: int, known: bool) -> None:
    spec = sink(kafka(KafkaSinkConfig, "b:1"))
    daily = SinkSpec(
        spec.node,
        spec.connector,
        kafka(Remembering, "b:1"),
        spec.format,
        spec.schema,
        spec.encoded,
        spec.update_key,
    )
    if known:
        require_remembered([daily], "job", age_ms)
        return
    expired = "decided 23h ago, but sink 'out' keeps the number of published rows for 24h only"
    with pytest.raises(UserError, match=expired):
        require_remembered([daily], "job", age_ms)


def test_fresh_decisions_ask_nobody() -> None:
    require_remembered([sink(kafka(KafkaSinkConfig, "127.0.0.1:1"))], "job", 29_999)


@pytest.mark.broker
def test_a_followed_job_that_is_given_up_is_not_begun_anew(site: Site) -> None:
    model, options, home = pipeline_from_dict(site.document), FollowOptions(ReplayOptions()), Home(site.home)
    prepared = prepare_follow(model, options, home)
    folder = job_url(prepared.storage, prepared.job)
    journal = DriverJournal(open_store(folder), prepared.job)
    journal.load()
    journal.append(AttemptRecord(at_ms=1, attempt=1, parallelism=1, plan_hash="h"))
    assert give_up_job(prepared.job, open_store(folder), SystemClock()).rows == 0
    with pytest.raises(UserError, match="was given up") as raised:
        prepare_follow(model, options, home)
    assert f"--from-savepoint {folder}" in str(raised.value.remedy)


@pytest.mark.broker
def test_brokers_say_how_long(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    config = kafka(KafkaSinkConfig, broker.bootstrap)
    assert markers_kept_ms(config) == WEEK_MS == USUAL_MS
    monkeypatch.setattr("headrace_connectors.kafka.publishing.marker.SETTING", "offsets.retention.check.interval.ms")
    assert markers_kept_ms(config) != WEEK_MS, "they were asked"
    monkeypatch.setattr("headrace_connectors.kafka.publishing.marker.SETTING", f"no.{SETTING}")
    assert markers_kept_ms(config) == USUAL_MS
