"""The committer of exactly-once Kafka sinks: describes, commits and fences the writers' transactions. It runs in the
coordinator's connector host; the writers, which prepare the transactions, run in slots.

It opens no transaction, and needs no writer: a raw EndTxn request with name, producer id and producer epoch commits a
transaction whose producer is gone. Owns the order of requests and the errors; `rules` interprets the responses,
`txn_admin` sends the requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from headrace.connect.sink import Committable, OpenTransaction, SinkContext
from headrace.connect.source import Split, SplitId
from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.clients.log_identity import replaced_topics
from headrace_connectors.kafka.clients.transaction_names import LANES, job_prefix, lanes_of, parsed
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.requests.client import error_name
from headrace_connectors.kafka.requests.protocol import TransactionProtocol, producer_text, protocol_of
from headrace_connectors.kafka.requests.requests import EndCall
from headrace_connectors.kafka.transactions import rules
from headrace_connectors.kafka.transactions.audit import Audited
from headrace_connectors.kafka.transactions.txn_admin import PATIENCE_S, TxnAdmin, denied_access


class KafkaCommitter(Audited):
    """`connect.sink.AuditedCommitter` for Kafka. Every method may be repeated with the same arguments.

    retire_epoch   A name (transactional id) whose producer epoch is at least this is used for the last time: `describe`
                   adds a successor to its committable, the name that the writer uses instead from then on. Producer
                   epochs are 16-bit numbers, and each new producer of a name increments it.
    patience_s     how long one request is retried before ExternalError with `retry`, in seconds
    """

    def __init__(
        self,
        config: KafkaSinkSettings,
        context: SinkContext,
        *,
        retire_epoch: int = rules.RETIRE_EPOCH,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._config = config
        self._job, self._sink = context.job, context.node
        terms = context.checkpoint
        self._lanes = LANES if terms is None else lanes_of(terms.tolerable_failures)
        self._retire_epoch = retire_epoch
        self._admin = TxnAdmin(config.brokers, config.properties, patience_s=patience_s)
        self._log = SinkLog(config, self._admin)

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """The committables, with log, producer id and epoch, start, timeout and partitions in `payload`, and with a
        successor if the name is retired.

        Raises ExternalError that names the first transaction that cannot be committed and why, UserError for one of a
        transaction protocol that this version does not know.
        """
        _require_known_protocols(committables)
        answers = self._admin.describe([each.name for each in committables])
        described: list[Committable] = []
        for each in self._log.identified(committables):
            answer = answers[each.name]
            if isinstance(answer, rules.Undescribed) and not answer.unknown:
                self._fail(each.name, answer.code)
            because = rules.refusal(answer, self._config.topic)
            if because is not None or not isinstance(answer, rules.Described):
                raise self._not_committable(
                    each, answer.state if isinstance(answer, rules.Described) else "unknown", because
                )
            described.append(self._with_identity(each, answer))
        return described

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Commits the transactions with EndTxn. Returns those that the brokers have aborted, in the order of the
        argument.

        Raises UserError if the brokers no longer know one of them, because only the user can find out whether its rows
        are visible; and, before any commit, for a transaction protocol that this version does not know, and for a
        transaction in another log.
        """
        # all are checked before the first request: an error after some commits would leave part of an epoch visible
        _require_known_protocols(committables)
        self._log.require_same(committables)
        open_ones = {each.name: each for each in committables}
        lost: set[str] = set()
        # An error about the transaction's state does not determine the outcome. If the response to an earlier EndTxn
        # was lost, the transaction is committed, and the second EndTxn fails in the same way as after an abort. So such
        # transactions are described.
        while open_ones:
            codes = self._admin.end([_end_call(each) for each in open_ones.values()])
            looked_at = self._to_describe(codes)
            answers = self._admin.describe(looked_at)
            undecided: dict[str, Committable] = {}
            for name in looked_at:
                answer = answers[name]
                if isinstance(answer, rules.Undescribed) and not answer.unknown:
                    self._fail(name, answer.code)
                match rules.fate(_identity(open_ones[name]), answer):
                    case rules.Fate.LOST:
                        lost.add(name)
                    case rules.Fate.UNDECIDED:
                        undecided[name] = open_ones[name]
                    case rules.Fate.FORGOTTEN:
                        raise self._forgotten(open_ones[name])
                    case rules.Fate.COMMITTED:
                        pass
            # no transaction was decided in this round: to repeat it here might never end
            if undecided and len(undecided) == len(open_ones):
                name = next(iter(undecided))
                raise ExternalError(f"transaction {name} is open, but its commit was rejected", retry=True)
            open_ones = undecided
        return [each for each in committables if each.name in lost]

    def fence(self, names: Sequence[str]) -> None:
        """Aborts open transactions under these names, and fences their producers. Names that the brokers do not know
        are not registered."""
        self._fence(names)

    def sweep(self, attempt: int) -> Sequence[str]:
        """Aborts open transactions of this job and sink from attempts before `attempt`, and fences their producers.
        Returns their names."""
        listed = self._admin.listed(job_prefix(self._job), [rules.ONGOING])
        names = rules.swept(listed, self._job, self._sink, attempt)
        self._fence(names)
        return names

    def open_transactions(self) -> Sequence[OpenTransaction]:
        """The transactions of this job and sink that block read_committed readers. If the context has no job: those of
        all jobs."""
        listed = self._admin.listed(job_prefix(self._job), rules.UNSETTLED)
        answers = self._admin.describe(list(rules.ours(listed, self._job, self._sink)))
        return [
            _open_transaction(each)
            for _, each in sorted(answers.items())
            # a transaction may have completed between the two requests
            if isinstance(each, rules.Described) and each.state in rules.UNSETTLED
        ]

    def close(self) -> None:
        """Closes the connections. Idempotent."""
        self._admin.close()

    def _with_identity(self, committable: Committable, found: rules.Described) -> Committable:
        payload = committable.payload | _payload(found) | {"protocol": str(_protocol(committable))}
        following = rules.successor(
            found.name, found.producer_epoch, retire_epoch=self._retire_epoch, lanes=self._lanes
        )
        return replace(committable, payload=payload, successor=following)

    def _to_describe(self, codes: Mapping[str, int]) -> list[str]:
        """Names whose EndTxn was answered with an error about their state. Raises for unknown codes."""
        for name, code in codes.items():
            if rules.answer_to(code) in {rules.Answer.DENIED, rules.Answer.UNKNOWN}:
                self._fail(name, code)
        return [name for name, code in codes.items() if rules.answer_to(code) is rules.Answer.LOOK]

    def _fence(self, names: Collection[str]) -> None:
        # only names that the brokers know are fenced: InitProducerId would register an unknown name
        answers = self._admin.describe(names)
        for name, each in answers.items():
            if isinstance(each, rules.Undescribed) and not each.unknown:
                self._fail(name, each.code)
        described = [name for name, each in answers.items() if isinstance(each, rules.Described)]
        for name, code in self._admin.fence(described).items():
            if rules.answer_to(code) is not rules.Answer.DONE:
                self._fail(name, code)

    def _fail(self, name: str, code: int) -> NoReturn:
        if code in rules.DENIED:
            raise denied_access(name, code, self._config.brokers)
        raise ExternalError(f"Kafka at {self._config.brokers} rejected transaction {name}: {error_name(code)}")

    def _forgotten(self, committable: Committable) -> UserError:
        return UserError(
            f"Kafka at {self._config.brokers} no longer knows transaction {committable.name}, so it is unknown whether "
            f"its {committable.rows} rows of epoch {committable.epoch} are visible",
            remedy="brokers forget names after transactional.id.expiration.ms (7 days), and other clusters never knew "
            f"it. Check topic {self._config.topic!r}: if the rows are there, start from that checkpoint with "
            "--allow-lost-output, otherwise from the checkpoint before",
        )

    def _not_committable(self, committable: Committable, state: str, because: str | None) -> ExternalError:
        return ExternalError(
            f"transaction {committable.name} of epoch {committable.epoch} cannot be committed, it is {state}: "
            f"{because}",
            remedy="the job continues from the checkpoint before, and nothing is lost; if it happens again, raise "
            "transaction_timeout above the sum of checkpoint interval, timeout and restart delay, and check that no "
            "other job has the same name",
            retry=True,
        )


def _payload(found: rules.Described) -> dict[str, Any]:
    return {
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "started_at_ms": found.started_at_ms,
        "timeout_ms": found.timeout_ms,
        "partitions": {topic: list(numbers) for topic, numbers in sorted(found.partitions.items())},
    }


def _identity(committable: Committable) -> rules.Identity:
    payload = committable.payload
    return rules.Identity(payload["producer_id"], payload["producer_epoch"], payload.get("started_at_ms", 0))


def _require_known_protocols(committables: Sequence[Committable]) -> None:
    for each in committables:
        _protocol(each)


def _protocol(committable: Committable) -> TransactionProtocol:
    """The protocol for ending the transaction. Raises UserError for an unknown one."""
    protocol = protocol_of(committable.payload)
    if protocol is None:
        known = " and ".join(TransactionProtocol)
        raise UserError(
            f"transaction {committable.name} of epoch {committable.epoch} was written by "
            f"{producer_text(committable.payload)} with transaction protocol {committable.payload['protocol']}, and "
            f"this version of headrace ends {known} only",
            remedy="nothing of the epoch was committed: start the job with the version of headrace that wrote it, or a "
            "later one",
        )
    return protocol


def _end_call(committable: Committable) -> EndCall:
    identity = _identity(committable)
    return EndCall(
        committable.name,
        identity.producer_id,
        identity.producer_epoch,
        committed=True,
        protocol=_protocol(committable),
    )


def _open_transaction(found: rules.Described) -> OpenTransaction:
    whose = parsed(found.name)
    places = tuple(f"{topic}[{number}]" for topic, numbers in sorted(found.partitions.items()) for number in numbers)
    there = OpenTransaction(
        name=found.name,
        state=found.state,
        started_at_ms=max(found.started_at_ms, 0),
        timeout_ms=found.timeout_ms,
        places=places,
        identity={"producer_id": found.producer_id, "producer_epoch": found.producer_epoch},
        ending=found.state != rules.ONGOING,
    )
    if whose is None:
        return there
    return replace(there, sink=whose.sink, job=whose.job, attempt=whose.attempt, subtask=whose.subtask)


LOG_FIELD = "log"
"""The field of a committable's payload: the identity of the log that its transaction is in."""


class SinkLog:
    """Identifies the log of one sink, and compares it with that of committables. Used by one thread.

    A transaction is committed only if the log is still the one that the transaction is in. Brokers commit a transaction
    whose topic was deleted without an error, even if a new topic has its name. Another cluster does not know the
    transaction, which is indistinguishable from an expired name.

    admin   asks the brokers; its owner closes it
    """

    def __init__(self, config: KafkaSinkSettings, admin: TxnAdmin) -> None:
        self._config = config
        self._admin = admin
        self._attempt: int | None = None
        self._began_in = ""

    def identified(self, committables: Sequence[Committable]) -> list[Committable]:
        """The committables of one attempt with the identity of the log. Raises ExternalError with `retry` if the log
        has been replaced since the attempt's first call: part of their rows may be in the earlier one."""
        if not committables:
            return []
        now = self._admin.log_of(self._config.topic)
        whose = parsed(committables[0].name)
        attempt = None if whose is None else whose.attempt
        if attempt != self._attempt or not self._began_in:
            self._attempt, self._began_in = attempt, now
        if text := self._difference(self._began_in, now):
            raise ExternalError(
                f"epoch {committables[0].epoch} cannot be committed, topic {self._config.topic!r} is another one than "
                f"the one that its rows were written to: {text}",
                remedy="the job continues from the checkpoint before, and writes its rows again",
                retry=True,
            )
        return [replace(each, payload=each.payload | {LOG_FIELD: now}) for each in committables]

    def require_same(self, committables: Sequence[Committable]) -> None:
        """Raises UserError if a committable is in another log, ExternalError with `retry` if the log has no identity
        any more. Those of earlier versions name no log, and are not checked."""
        named = {each.payload[LOG_FIELD]: each for each in committables if each.payload.get(LOG_FIELD)}
        now = self._admin.log_of(self._config.topic) if named else ""
        for log, committable in named.items():
            topic = self._config.topic
            if not now:
                raise ExternalError(
                    f"epoch {committable.epoch} is not committed: Kafka at {self._config.brokers} has no topic "
                    f"{topic!r} any more, or does not allow to describe it",
                    retry=True,
                )
            if text := self._difference(log, now):
                raise UserError(
                    f"transaction {committable.name} of epoch {committable.epoch}, {committable.rows} rows, is in "
                    f"another log than topic {topic!r}: {text}",
                    remedy="nothing was committed: correct `brokers:`. If that log is gone, start a new job from this "
                    "checkpoint with --allow-lost-output, or from the one before, whose rows then come again",
                )

    def _difference(self, before: str, now: str) -> str:
        splits = [Split(SplitId(self._config.topic, 0), 0, identity=before)]
        return replaced_topics(splits, {self._config.topic: now}, self._config.brokers).get(self._config.topic, "")
