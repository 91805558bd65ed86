"""Kafka transaction admin client: find coordinator, describe, end, fence, list. Retries for `patience_s`.

Owns the routing of requests to brokers and their retries. Transient errors (a broker restarts, a coordinator moves, a
transaction's markers are pending) are retried for `patience_s`, then raised as ExternalError with `retry`. Each name
has its own result. `rules` interprets responses, `requests.client` sends requests.
`require_timeout_allowed` checks a sink's transaction timeout before the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from headrace.core.errors import ExternalError, UserError
from headrace.core.retry import Backoff, Retries
from headrace_connectors.kafka.clients.client_security import client_security
from headrace_connectors.kafka.clients.transaction_names import PREFIX
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.requests.client import (
    NETWORK_EXCEPTION,
    BrokerClient,
    connection_settings_of,
    error_name,
)
from headrace_connectors.kafka.requests.requests import Coordinator, EndCall, RawDescription
from headrace_connectors.kafka.requests.topic_logs import identity, no_answer
from headrace_connectors.kafka.transactions import rules

PATIENCE_S = 8.0
"""Time limit of the retries of one call, in seconds: most broker restarts take less."""
ANSWER_TIMEOUT_MS = 4_000
_BACKOFF = Backoff(first_s=0.005, max_s=0.25)
_COORDINATORS_MAX = 10_000
_FENCE_TIMEOUT_MS = 10_000
"""Transaction timeout of a fence's producer, which never writes; below any broker's maximum."""
_MAX_TIMEOUT = "transaction.max.timeout.ms"

A = TypeVar("A")


class TxnAdmin:
    """Requests about transactions. Used by one thread.

    All methods raise ExternalError: with `retry` if there is no response within `patience_s`; without `retry` if access
    is denied, with the missing ACL as remedy.
    """

    def __init__(self, brokers: str, properties: Mapping[str, str], *, patience_s: float = PATIENCE_S) -> None:
        self._brokers = brokers
        self._settings = connection_settings_of(client_security(properties))
        self._patience_s = patience_s
        self._client: BrokerClient | None = None
        self._coordinators: dict[str, int] = {}
        self._last_failure = ""

    def find(self, names: Collection[str]) -> dict[str, int]:
        """The transaction coordinator of each name, without the cache."""
        for name in names:
            self._coordinators.pop(name, None)
        answers = self._until_answered(
            names, lambda placed: {name: (0, node) for node, group in placed.items() for name in group}, _code_of_pair
        )
        return {name: broker for name, (_, broker) in answers.items()}

    def describe(self, names: Collection[str]) -> dict[str, rules.Description]:
        """The description of each transaction: one request per broker, without side effects."""
        answers = self._until_answered(names, lambda placed: self._connected().describe(placed), lambda raw: raw.code)
        return {name: _described(name, raw) for name, raw in answers.items()}

    def end(self, calls: Sequence[EndCall]) -> dict[str, int]:
        """Sends EndTxn for each call. Returns name -> error code; transient errors were retried."""
        by_name = {call.name: call for call in calls}
        return self._until_answered(
            by_name,
            lambda placed: self._connected().end({node: [by_name[each] for each in at] for node, at in placed.items()}),
            int,
        )

    def fence(self, names: Collection[str]) -> dict[str, int]:
        """Aborts the open transaction of each name, and fences its producers, by InitProducerId. Returns name -> error
        code; transient errors were retried.

        It registers names that the brokers do not know, so the caller must describe them first.
        """
        return self._until_answered(
            names, lambda placed: self._connected().init_producer_ids(placed, timeout_ms=_FENCE_TIMEOUT_MS), int
        )

    def listed(self, prefix: str, states: Sequence[str]) -> dict[str, str]:
        """Transactions of all brokers in one of the states and with this name prefix: name -> state."""
        # RE2J with a quoted prefix (KIP-1152). Brokers before 4.1 ignore it, so the names are filtered again below
        pattern = rf"\Q{prefix}\E.*"
        answers = self._from_every_broker(lambda client, at: client.listed(at, states=states, pattern=pattern))
        return {
            name: state
            for rows in answers
            for name, state in rows.items()
            if name.startswith(prefix) and state in states
        }

    def timeout_max_ms(self) -> int | None:
        """The longest transaction timeout that every broker allows; None if access is denied."""
        answers = self._from_every_broker(
            lambda client, at: client.broker_setting(at, _MAX_TIMEOUT), passed_over=rules.DENIED
        )
        allowed = [int(value) for value in answers if value is not None]
        return min(allowed, default=None)

    def log_of(self, topic: str) -> str:
        """The identity of the log behind a topic's name (`requests.topic_logs`); empty if it has none: the topic does
        not exist, may not be described, or the brokers name no ids. Any broker answers, also while others are down."""
        retries = Retries(_BACKOFF, self._patience_s)
        while True:
            try:
                found = self._connected().logs_of([topic])[topic]
            except ExternalError as error:
                retries.pause_or_raise(error)
                continue
            if found.code != NETWORK_EXCEPTION:
                return identity(found)
            retries.pause_or_raise(no_answer(self._brokers, [topic], self._last_failure))

    def close(self) -> None:
        """Closes the connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> BrokerClient:
        if self._client is not None and self._client.broken:
            self._last_failure = self._client.last_failure()
            self.close()
        if self._client is None:
            self._client = BrokerClient(self._brokers, self._settings, answer_timeout_ms=ANSWER_TIMEOUT_MS)
        return self._client

    def _until_answered(
        self,
        names: Iterable[str],
        ask: Callable[[Mapping[int, Sequence[str]]], Mapping[str, A]],
        code_of: Callable[[A], int],
    ) -> dict[str, A]:
        """Sends requests for all names, then again for those with a transient error, each time to their current
        transaction coordinator."""
        open_names = dict.fromkeys(names, 0)
        answers: dict[str, A] = {}
        retries = Retries(_BACKOFF, self._patience_s)
        while open_names:
            try:
                placed, codes = self._placed(open_names)
                got = ask(placed) if placed else {}
            except ExternalError as error:
                retries.pause_or_raise(error)
                continue
            codes |= {name: code_of(answer) for name, answer in got.items()}
            for name, code in codes.items():
                # the cached coordinator is outdated: the next round requests it again
                if code in rules.MOVED:
                    self._coordinators.pop(name, None)
                if name in got and rules.answer_to(code) is not rules.Answer.RETRY:
                    answers[name] = got[name]
            open_names = {name: codes.get(name, 0) for name in open_names if name not in answers}
            if open_names:
                retries.pause_or_raise(self._unanswered(open_names))
        return answers

    def _placed(self, names: Iterable[str]) -> tuple[dict[int, list[str]], dict[str, int]]:
        """(transaction coordinator -> its names, error codes of names whose coordinator is not known)."""
        wanted = list(names)
        if len(self._coordinators) > _COORDINATORS_MAX:
            self._coordinators.clear()
        unknown = [name for name in wanted if name not in self._coordinators]
        coordinators: dict[str, Coordinator] = self._connected().find(unknown) if unknown else {}
        denied = sorted(name for name, place in coordinators.items() if place.code in rules.DENIED)
        if denied:
            raise denied_access(denied[0], coordinators[denied[0]].code, self._brokers)
        self._coordinators |= {name: place.broker for name, place in coordinators.items() if place.code == 0}
        placed: dict[int, list[str]] = {}
        for name in wanted:
            if name in self._coordinators:
                placed.setdefault(self._coordinators[name], []).append(name)
        return placed, {name: place.code for name, place in coordinators.items() if place.code != 0}

    def _from_every_broker(
        self,
        ask: Callable[[BrokerClient, Sequence[int]], Mapping[int, tuple[int, A]]],
        passed_over: Collection[int] = (),
    ) -> list[A]:
        """The responses of all brokers in the cluster, without those with a code in `passed_over`. If a broker fails,
        all current brokers of the cluster are queried again."""
        retries = Retries(_BACKOFF, self._patience_s)
        while True:
            try:
                client = self._connected()
                answers = ask(client, client.brokers())
            except ExternalError as error:
                retries.pause_or_raise(error)
                continue
            bad = {code for code, _ in answers.values()} - {0, *passed_over}
            if not bad:
                return [answer for code, answer in answers.values() if code == 0]
            if bad & rules.DENIED:
                raise denied_access("transactions", (bad & rules.DENIED).pop(), self._brokers)
            retries.pause_or_raise(self._unanswered({"every broker": bad.pop()}))

    def _unanswered(self, names: Mapping[str, int]) -> ExternalError:
        name, code = next(iter(names.items()))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        detail = f"; {self._last_failure}" if self._last_failure and code in rules.MOVED else ""
        return ExternalError(
            f"Kafka at {self._brokers} does not answer about transaction {name}{more}: {error_name(code)}{detail}",
            remedy="the request is repeated; check the brokers and their topic __transaction_state",
            retry=True,
        )


def denied_access(name: str, code: int, brokers: str) -> ExternalError:
    """The error for a transaction that this principal may not describe or end."""
    return ExternalError(
        f"Kafka at {brokers} denies access to transaction {name}: {error_name(code)}",
        remedy=f"ask for an ACL that allows WRITE and DESCRIBE on TransactionalId with the prefix {PREFIX}-",
    )


def _described(name: str, raw: RawDescription) -> rules.Description:
    if raw.code != 0:
        return rules.Undescribed(name, raw.code)
    return rules.Described(
        name, raw.state, raw.producer_id, raw.producer_epoch, raw.started_at_ms, raw.timeout_ms, raw.partitions
    )


def _code_of_pair(answer: tuple[int, int]) -> int:
    return answer[0]


def require_timeout_allowed(config: KafkaSinkSettings) -> None:
    """Raises UserError if `transaction_timeout` exceeds a broker's maximum, ExternalError if none answers.

    If the brokers deny access to the setting, the check passes: the writer raises the error when it opens.
    """
    admin = TxnAdmin(config.brokers, config.properties)
    try:
        allowed_ms = admin.timeout_max_ms()
    finally:
        admin.close()
    if allowed_ms is not None and config.transaction_timeout_ms > allowed_ms:
        raise UserError(
            f"transaction_timeout is {config.transaction_timeout_ms} ms, but Kafka at {config.brokers} allows "
            f"{allowed_ms} ms at most",
            remedy=f"write transaction_timeout: {allowed_ms}ms or less, "
            "or raise transaction.max.timeout.ms of every broker",
        )
