"""The log behind a sink's topic. A transaction is committed only if it is still the one that the transaction is in.

Brokers commit a transaction whose topic was deleted without an error, also if another topic has its name; and another
cluster never knew the transaction, which looks as if its name had expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.connect.sink import Committable
from headrace.connect.source import Split, SplitId
from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.clients.log_identity import replaced_topics
from headrace_connectors.kafka.clients.transaction_names import parsed
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin

LOG_FIELD = "log"
"""The field of a committable's payload: the identity of the log that its transaction is in."""


class SinkLog:
    """Identifies the log of one sink, and compares it with that of committables. Used by one thread.

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
        known = [Split(SplitId(self._config.topic, 0), 0, identity=before)]
        return replaced_topics(known, {self._config.topic: now}, self._config.brokers).get(self._config.topic, "")
