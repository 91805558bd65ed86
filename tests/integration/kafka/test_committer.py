"""The Kafka committer against a real broker: every answer of one that a transaction can get, and a broker that dies."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection
from kafka.admin import KafkaAdminClient

from headrace.connect.sink import CheckpointTerms, Committable, Committer, SinkBatch, SinkContext
from headrace.core.errors import ExternalError, UserError
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.clients.client import ClientWatch, open_admin
from headrace_connectors.kafka.clients.transaction_names import names_of
from headrace_connectors.kafka.requests.requests import EndCall
from headrace_connectors.kafka.sink.transactional_writer import TransactionalWriter
from headrace_connectors.kafka.transactions.committer import KafkaCommitter
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin, require_timeout_allowed
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, delete_topic, running_broker, unique_topic
from support.kafka.raw_transactions import raw_transactions
from support.patience import BROKER_SESSION
from support.processes.running import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

TIMEOUT_MS = 600_000
"""Far longer than a test takes: what is open expires only where that is meant."""
PATIENCE_S = WAIT_SECONDS
"""Far longer than a broker of a loaded machine takes to start."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of its own, that looks often for transactions that took too long. Nobody kills it."""
    settings = {
        **BROKER_SESSION,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        "transaction.max.timeout.ms": "600000",
    }
    folder = tmp_path_factory.mktemp("kafka")
    with running_broker(folder, settings=settings) as running:
        yield running


class Job:
    """A job of its own on a topic of its own: its transactions and its committer."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.topic = create_topic(broker, unique_topic("out"), 2)
        self.name = unique_topic("job")
        self.config = KafkaSinkConfig.model_validate({"brokers": broker.bootstrap, "topic": self.topic})
        self._opened: list[Committer] = []

    def transaction(self, attempt: int = 1, subtask: int = 0, lane: int = 0, sink: str = "out") -> str:
        return str(names_of(self.name, sink, attempt, subtask, lane + 1)[lane])

    def prepared(self, name: str, rows: int = 10, *, topic: str = "", timeout_ms: int = TIMEOUT_MS) -> Committable:
        """What a writer's flush gives: the producer is gone, its transaction open."""
        producer = open_producer(self.broker.bootstrap, name, timeout_ms)
        for number in range(rows):
            producer.produce(topic or self.topic, f"{name} {number}", partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0
        return Committable("out", 0, 1, {}, name, rows)

    def committer(self, *, job: str | None = None, sink: str = "out", **options: float) -> KafkaCommitter:
        terms = CheckpointTerms(1000, 1000, aligned=True, tolerable_failures=1, restart_delay_ms=0)
        context = SinkContext(
            self.name if job is None else job, sink, 0, 1, schema_of({"k": "string"}), attempt=1, checkpoint=terms
        )
        opened = KafkaCommitter(self.config, context, **{"patience_s": PATIENCE_S, **options})  # type: ignore[arg-type]
        self._opened.append(opened)
        return opened

    def visible(self) -> int:
        return len(consume_all(self.broker, self.topic))

    def written(self) -> int:
        return len(consume_all(self.broker, self.topic, "read_uncommitted"))

    def close(self) -> None:
        for each in self._opened:
            each.close()


def open_producer(bootstrap: str, name: str, timeout_ms: int = TIMEOUT_MS) -> Producer:
    """In an open transaction."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            # the client takes none longer than the transaction's
            "socket.timeout.ms": min(timeout_ms, 120_000),
            "message.timeout.ms": min(timeout_ms, 120_000),
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    return producer


def write_and_commit(producer: Producer, topic: str) -> None:
    producer.produce(topic, "y", partition=0)
    producer.flush(PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)


@pytest.fixture
def job(broker: EmbeddedBroker) -> Iterator[Job]:
    opened = Job(broker)
    yield opened
    opened.close()


def test_a_transaction_of_another_cluster_is_refused_and_not_lost(job: Job) -> None:
    """What another cluster never knew looks like something that was aborted."""
    committer = job.committer()
    (described,) = committer.describe([job.prepared(job.transaction())])
    cluster, _, topic = described.payload["log"].partition("/")
    assert cluster and topic
    elsewhere = replace(described, payload={**described.payload, "log": f"another/{topic}"})
    with pytest.raises(UserError, match=rf"10 rows, is in another log .* is cluster {cluster} now, and was another"):
        committer.commit([elsewhere])
    assert job.visible() == 0
    # a checkpoint of an earlier version names no log
    older = replace(described, payload={name: each for name, each in described.payload.items() if name != "log"})
    assert not committer.commit([older])
    assert job.visible() == 10


def test_the_log_has_the_name_that_librdkafka_gives_it(job: Job) -> None:
    """Positions of earlier versions have the names that librdkafka gives."""
    client = open_admin(job.broker.bootstrap, {}, ClientWatch(job.broker.bootstrap))
    cluster = client.describe_cluster().result(WAIT_SECONDS).cluster_id
    (described,) = client.describe_topics(TopicCollection([job.topic])).values()
    admin = TxnAdmin(job.broker.bootstrap, {}, patience_s=PATIENCE_S)
    try:
        assert admin.log_of(job.topic) == f"{cluster}/{described.result(WAIT_SECONDS).topic_id}"
        assert admin.log_of("no-such-topic") == ""
    finally:
        admin.close()


def test_a_transaction_whose_topic_was_made_anew_is_refused_and_not_committed_without_rows(job: Job) -> None:
    """Brokers commit it without an error, though its rows are gone with the topic."""
    committer = job.committer()
    (described,) = committer.describe([job.prepared(job.transaction())])
    delete_topic(job.broker, job.topic)
    for restarted in (committer, job.committer()):
        with pytest.raises(ExternalError, match=r"is not committed: .* has no topic") as absent:
            restarted.commit([described])
        assert absent.value.retry
    create_topic(job.broker, job.topic, 2)
    with pytest.raises(UserError, match=r"10 rows, is in another log than topic .* made anew") as raised:
        committer.commit([described])
    assert "--allow-lost-output" in str(raised.value.remedy)
    assert job.visible() == 0


def test_a_topic_made_anew_under_an_open_transaction_refuses_the_epoch_until_another_attempt(job: Job) -> None:
    committer = job.committer()
    (first,) = committer.describe([job.prepared(job.transaction())])
    assert not committer.commit([first])
    half = job.prepared(job.transaction(lane=1))
    delete_topic(job.broker, job.topic)
    create_topic(job.broker, job.topic, 2)
    for _ in range(2):
        with pytest.raises(ExternalError, match=r"cannot be committed, topic .* is another one .* made anew") as raised:
            committer.describe([half])
        assert raised.value.retry
    assert not committer.commit(committer.describe([job.prepared(job.transaction(attempt=2))]))
    assert job.visible() == 10


def test_it_is_a_committer(job: Job) -> None:
    committer: Committer = job.committer()
    committer.close()
    committer.close()


def test_what_a_killed_writer_prepared_is_committed_by_another_process(job: Job) -> None:
    name = job.transaction()
    code = (
        "import sys, time\n"
        "from confluent_kafka import Producer\n"
        "p = Producer({'bootstrap.servers': sys.argv[1], 'transactional.id': sys.argv[2], 'log_level': 3,\n"
        "              'transaction.timeout.ms': sys.argv[4]})\n"
        "p.init_transactions(200); p.begin_transaction()\n"
        "for i in range(100): p.produce(sys.argv[3], b'x', partition=i % 2)\n"
        "assert p.flush(200) == 0\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, job.broker.bootstrap, name, job.topic, str(TIMEOUT_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.kill()

    committer = job.committer()
    (described,) = committer.describe([Committable("out", 0, 1, {"mine": 1}, name, 100)])
    assert described.payload["mine"] == 1
    assert described.payload["protocol"] == "TV1"
    assert described.payload["partitions"] == {job.topic: [0, 1]}
    assert described.payload["timeout_ms"] == TIMEOUT_MS
    assert described.payload["started_at_ms"] > 0
    assert described.successor == ""
    assert (job.visible(), job.written()) == (0, 100)
    assert committer.commit([described]) == []
    wait_until(lambda: job.visible() == 100, "job.visible() == 100")


def test_brokers_that_serve_tv2_end_transactions_of_tv1(job: Job) -> None:
    """Kafka 4 has `transaction.version` 2: its own clients raise the epoch with each EndTxn. Ours must not."""
    features = KafkaAdminClient(bootstrap_servers=job.broker.bootstrap)
    try:
        finalized = features.describe_features()
    finally:
        features.close()
    assert finalized["transaction.version"]["finalized"][1] == 2, finalized

    config = KafkaSinkConfig.model_validate(
        {
            "brokers": job.broker.bootstrap,
            "topic": job.topic,
            "delivery": "exactly-once",
            "transaction_timeout": f"{TIMEOUT_MS}ms",
        }
    )
    terms = CheckpointTerms(1000, 1000, aligned=True, tolerable_failures=1, restart_delay_ms=0)
    context = SinkContext(job.name, "out", 0, 1, schema_of({"k": "string"}), attempt=1, checkpoint=terms)
    writer = TransactionalWriter(config, context)
    writer.write(SinkBatch(pl.DataFrame({"k": ["a"]}), pa.array(["v"], pa.large_string())))
    prepared = writer.flush(1)
    writer.close()
    committer = job.committer()
    (decided,) = committer.describe(prepared)
    assert decided.payload["protocol"] == "TV1"

    assert committer.commit([decided]) == []
    with raw_transactions(job.broker) as raw:
        wait_until(lambda: raw.state(decided.name) == "CompleteCommit", "its markers are out")
        after = raw.describe(decided.name)
    assert after is not None
    assert (after.producer_id, after.producer_epoch) == (
        decided.payload["producer_id"],
        decided.payload["producer_epoch"],
    )
    # so that a second one is known to be the same
    assert committer.commit([decided]) == []
    wait_until(lambda: job.visible() == 1, "job.visible() == 1")


def test_what_earlier_versions_decided_on_is_committed(job: Job) -> None:
    """Checkpoints from before producers were recorded, and from before the protocol was."""
    committer = job.committer()
    names = [job.transaction(subtask=subtask) for subtask in range(2)]
    decided = committer.describe([job.prepared(name) for name in names])
    without = {name: value for name, value in decided[1].payload.items() if name != "protocol"}
    assert committer.commit([decided[0], replace(decided[1], payload=without)]) == []
    wait_until(lambda: job.visible() == 20, "job.visible() == 20")


def test_a_commit_is_repeated_without_effect_by_a_committer_that_knows_nothing(job: Job) -> None:
    names = [job.transaction(subtask=subtask) for subtask in range(3)]
    decided = job.committer().describe([job.prepared(name) for name in names])
    # one is committed before the first committer dies
    assert job.committer().commit(decided[:1]) == []
    assert job.committer().commit(decided) == []
    assert job.committer().commit(decided) == []
    wait_until(lambda: job.visible() == 30, "job.visible() == 30")


def test_what_is_committed_is_no_longer_committable(job: Job) -> None:
    committer = job.committer()
    decided = committer.describe([job.prepared(job.transaction())])
    committer.commit(decided)
    with pytest.raises(ExternalError, match=r"Commit: another client committed it already") as caught:
        committer.describe(decided)
    assert caught.value.retry
    assert job.transaction() in caught.value.message


def test_one_that_was_fenced_is_refused_before_the_decision_and_lost_after_it(job: Job) -> None:
    committer = job.committer()
    gone, stays = job.prepared(job.transaction(lane=0)), job.prepared(job.transaction(lane=1))
    decided = committer.describe([gone, stays])
    committer.fence([gone.name])
    with pytest.raises(ExternalError, match=r"Empty: another producer has taken its name"):
        committer.describe([stays, gone])
    # 90: the epoch is another one
    assert committer.commit(decided) == [decided[0]]
    assert committer.commit(decided) == [decided[0]]
    wait_until(lambda: job.visible() == 10, "job.visible() == 10")


def test_the_next_transaction_of_a_name_is_not_mistaken_for_the_one_before(job: Job) -> None:
    committer = job.committer()
    first = committer.describe([job.prepared(job.transaction())])
    committer.commit(first)
    second = committer.describe([job.prepared(job.transaction(), rows=5)])
    assert second[0].payload["producer_epoch"] > first[0].payload["producer_epoch"]
    # the record of the first commit was lost: a foreign transaction is not committed in its place
    assert committer.commit(first) == first
    assert job.visible() == 10
    assert committer.commit(second) == []
    wait_until(lambda: job.visible() == 15, "job.visible() == 15")


def test_one_that_was_aborted_by_its_own_producer(job: Job) -> None:
    committer = job.committer()
    producer = open_producer(job.broker.bootstrap, job.transaction())
    producer.produce(job.topic, "x", partition=0)
    producer.flush(PATIENCE_S)
    prepared = Committable("out", 0, 1, {}, job.transaction(), 1)
    decided = committer.describe([prepared])
    producer.abort_transaction(PATIENCE_S)
    with pytest.raises(ExternalError, match=r"Abort: the broker aborted it"):
        committer.describe([prepared])
    # 48: the epoch is the same, the state is not
    assert committer.commit(decided) == decided


def test_one_that_expired(job: Job) -> None:
    committer = job.committer()
    for lane, timeout_ms in enumerate((1_000, 10_000, 60_000)):
        # as short as this machine is quick enough for
        with suppress(ExternalError, KafkaException):
            prepared = job.prepared(job.transaction(lane=lane), timeout_ms=timeout_ms)
            decided = [replace(prepared, payload=committer.describe([prepared])[0].payload)]
            break
    wait_until(lambda: not committer.open_transactions(), "not committer.open_transactions()")
    with pytest.raises(ExternalError, match=rf"longer than transaction_timeout \({timeout_ms} ms\)") as caught:
        committer.describe([prepared])
    assert "raise transaction_timeout" in str(caught.value.remedy)
    assert committer.commit(decided) == decided
    assert job.visible() == 0


def test_wrong_epochs_producers_and_names_are_lost_and_touch_nothing(job: Job) -> None:
    committer = job.committer()
    (there,) = committer.describe([job.prepared(job.transaction())])
    newer = replace(there, payload=there.payload | {"producer_epoch": there.payload["producer_epoch"] + 1})
    other = replace(there, payload=there.payload | {"producer_id": there.payload["producer_id"] + 100_000})
    unknown = replace(there, name=job.transaction(lane=2))
    for each in (newer, other):
        assert committer.commit([each]) == [each]
    with pytest.raises(UserError, match="unknown whether its"):
        committer.commit([unknown])
    assert job.visible() == 0
    assert committer.commit([there]) == []
    with pytest.raises(ExternalError, match="does not know its name"):
        committer.describe([Committable("out", 0, 1, {}, unknown.name)])


def test_one_that_wrote_to_another_topic_is_refused(job: Job) -> None:
    other = create_topic(job.broker, unique_topic("other"), 2)
    with pytest.raises(ExternalError, match="has no record of topic"):
        job.committer().describe([job.prepared(job.transaction(), topic=other)])


def test_fencing_ends_what_is_open_shuts_out_its_producer_and_makes_no_new_names(job: Job) -> None:
    committer = job.committer()
    holder = open_producer(job.broker.bootstrap, job.transaction())
    holder.produce(job.topic, "x", partition=0)
    assert holder.flush(PATIENCE_S) == 0
    never = [job.transaction(attempt=2, lane=lane) for lane in range(3)]
    for _ in range(2):
        committer.fence([job.transaction(), *never])
    with pytest.raises(KafkaException, match="fenced"):
        write_and_commit(holder, job.topic)
    assert job.visible() == 0
    admin = TxnAdmin(job.broker.bootstrap, {}, patience_s=PATIENCE_S)
    assert {type(each).__name__ for each in admin.describe(never).values()} == {"Undescribed"}
    admin.close()


def test_an_idle_spare_is_shut_out_too(job: Job) -> None:
    spare = open_producer(job.broker.bootstrap, job.transaction())
    job.committer().fence([job.transaction()])
    with pytest.raises(KafkaException, match="fenced"):
        write_and_commit(spare, job.topic)
    assert job.committer().open_transactions() == []


def test_a_sweep_ends_a_zombies_transaction_and_nothing_else(job: Job) -> None:
    committer = job.committer()
    zombie = job.prepared(job.transaction(attempt=1))
    kept = [job.prepared(job.transaction(attempt=2)), job.prepared(job.transaction(attempt=1, sink="other"))]
    assert committer.sweep(2) == [zombie.name]
    assert committer.sweep(2) == []
    # 64 attempts later the names are the same
    assert committer.sweep(66) == []
    everything = {each.name for each in job.committer(job="").open_transactions()}
    assert {each.name for each in kept} <= everything
    assert zombie.name not in everything
    wait_until(lambda: job.visible() == 0, "job.visible() == 0")
    assert job.committer().commit(committer.describe(kept)) == []


def test_open_transactions_say_whose_they_are(job: Job) -> None:
    committer = job.committer()
    prepared = job.prepared(job.transaction(attempt=3, subtask=4, lane=1))
    job.prepared(job.transaction(sink="other"))
    (there,) = committer.open_transactions()
    assert (there.name, there.job, there.sink) == (prepared.name, job.name, "out")
    assert (there.attempt, there.subtask, there.state) == (3, 4, "Ongoing")
    assert there.places == (f"{job.topic}[0]", f"{job.topic}[1]")
    assert there.timeout_ms == TIMEOUT_MS
    (described,) = committer.describe([prepared])
    assert there.started_at_ms == described.payload["started_at_ms"]
    assert there.identity.items() <= described.payload.items()
    # what is listed can be committed by hand
    assert committer.commit([replace(prepared, payload=there.identity)]) == []


def test_a_name_near_the_end_of_its_epochs_gets_a_successor(job: Job) -> None:
    first = job.committer(retire_epoch=1).describe([job.prepared(job.transaction())])
    assert first[0].successor == ""
    job.committer().commit(first)
    second = job.committer(retire_epoch=1).describe([job.prepared(job.transaction())])
    # three lanes and one for a checkpoint that may fail
    assert second[0].successor == job.transaction(lane=4)


def test_ended_by_hand(job: Job) -> None:
    committer = job.committer()
    (described,) = committer.describe([job.prepared(job.transaction())])
    admin = TxnAdmin(job.broker.bootstrap, {}, patience_s=PATIENCE_S)
    payload = described.payload
    call = EndCall(described.name, payload["producer_id"], payload["producer_epoch"], committed=False)
    assert admin.end([call]) == {described.name: 0}
    assert set(admin.find([described.name])) == {described.name}
    admin.close()
    assert committer.commit([described]) == [described]


def test_a_timeout_above_the_brokers_maximum_is_refused(broker: EmbeddedBroker) -> None:
    config = KafkaSinkConfig.model_validate({"brokers": broker.bootstrap, "topic": "t", "transaction_timeout": "10m"})
    require_timeout_allowed(config)
    with pytest.raises(UserError, match=r"is 600001 ms, but .* allows 600000 ms") as caught:
        require_timeout_allowed(config.model_copy(update={"transaction_timeout_ms": 600_001}))
    assert "transaction.max.timeout.ms" in str(caught.value.remedy)
    assert "transaction_timeout: 600000ms" in str(caught.value.remedy)


def test_many_transactions_at_once(job: Job) -> None:
    committer = job.committer()
    prepared = [job.prepared(job.transaction(subtask=subtask), rows=1) for subtask in range(12)]
    assert committer.commit(committer.describe(prepared)) == []
    wait_until(lambda: job.visible() == 12, "job.visible() == 12")


@pytest.fixture
def mortal(own_broker: EmbeddedBroker) -> Iterator[Job]:
    """A job on a broker that may be killed."""
    opened = Job(own_broker)
    yield opened
    opened.close()


def test_a_broker_that_dies_between_decision_and_commit(mortal: Job) -> None:
    job = mortal
    committer = job.committer()
    decided = committer.describe([job.prepared(job.transaction(subtask=each)) for each in range(3)])
    committer.commit(decided[:1])
    # a lone broker that dies with the markers of a commit still to be written may forget them (seen on Kafka 4.3.1):
    # its coordinator says CompleteCommit, and readers wait for ever. Here the committer is what is tested
    wait_until(lambda: job.visible() == 10, "the markers are written")
    job.broker.kill()
    impatient = job.committer(patience_s=0.5)
    with pytest.raises(ExternalError, match="no Kafka broker answers") as caught:
        impatient.commit(decided)
    assert caught.value.retry

    lost: list[object] = []
    waiting = threading.Thread(target=lambda: lost.append(committer.commit(decided)))
    waiting.start()
    job.broker.start()
    waiting.join(PATIENCE_S)
    assert lost == [[]]

    def answered() -> bool:
        # until the markers are written a commit has no answer: this takes the broker longer than that patience
        with suppress(ExternalError):
            assert impatient.commit(decided) == []
            return True
        return False

    wait_until(answered, "the one that gave up is answered")
    wait_until(lambda: job.visible() == 30, "job.visible() == 30")
