"""The real committer of the Kafka sink against simulated brokers: its requests take virtual time and may fail.

The committer is ordinary code that waits for answers: so a call of it is run again from its beginning after each
request, with the answers that it got before. That is sound because it keeps nothing between requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.connect.sink import CheckpointTerms, SinkContext
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.types import schema_of
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.requests.requests import EndCall
from headrace_connectors.kafka.transactions.committer import KafkaCommitter, SinkLog
from headrace_connectors.kafka.transactions.rules import Answer, Description, Undescribed, answer_to
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin
from sim.external.outside import SINK, TOPIC
from sim.external.transactions import DENIED, Brokers, Identity, Taker
from sim.world import Process

PATIENCE_MS = 8_000
AGAIN_MS = 250
FENCE_TIMEOUT_MS = 10_000
Request = Callable[[], object]
Denied = Callable[[str], object] | None


class _NotYet(BaseException):
    """The committer has come to a request that has no answer yet: for each name, what to ask, and what it looks like
    when that is denied."""

    def __init__(self, asked: Mapping[str, Request], denied: Denied) -> None:
        super().__init__()
        self.asked = asked
        self.denied = denied


class _Admin(TxnAdmin):
    """Answers from what was answered before."""

    def log_of(self, topic: str) -> str:
        """The topic is never made anew."""
        return f"cluster/{topic}"

    def __init__(self, brokers: Brokers) -> None:  # has no connection of its own
        self._known = brokers.transactions
        self._answers: list[Any] = []
        self._next = 0
        self.by = Taker("fence", 0)

    def begin(self, by: Taker) -> None:
        self._answers.clear()
        self.by = by

    def rewind(self) -> None:
        self._next = 0

    def answered(self, answer: object) -> None:
        self._answers.append(answer)

    def _call(self, asked: Mapping[str, Request], denied: Denied = None) -> Any:
        if not asked:
            return {}
        if self._next == len(self._answers):
            raise _NotYet(asked, denied)
        self._next += 1
        answer = self._answers[self._next - 1]
        if isinstance(answer, HeadraceError):
            raise answer
        return answer

    def describe(self, names: Collection[str]) -> dict[str, Description]:
        asked = {name: partial(self._known.describe, name) for name in names}
        return dict(self._call(asked, lambda name: Undescribed(name, DENIED)))

    def end(self, calls: Sequence[EndCall]) -> dict[str, int]:
        whose = {call.name: Identity(call.name, call.producer_id, call.producer_epoch) for call in calls}
        asked = {name: partial(self._known.end, each) for name, each in whose.items()}
        return dict(self._call(asked, lambda _: DENIED))

    def fence(self, names: Collection[str]) -> dict[str, int]:
        asked = {name: partial(self._fence_one, name, self.by) for name in names}
        return dict(self._call(asked, lambda _: DENIED))

    def _fence_one(self, name: str, by: Taker) -> int:
        return self._known.init(name, FENCE_TIMEOUT_MS, by)[0]

    def listed(self, prefix: str, states: Sequence[str]) -> dict[str, str]:
        found = self._call({prefix: partial(self._known.listed, prefix, states)})[prefix]
        assert isinstance(found, dict)
        return found


@dataclass(slots=True)
class _Round:
    """One request of the committer, for several names."""

    left: list[tuple[str, Request]]
    answers: dict[str, object]
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Work:
    """One call of the real committer.

    by      in whose name something is fenced
    alive   whether the process is still the same; nothing more is done where it is not
    done    gets what the call gave, or its error
    """

    what: Callable[[], object]
    by: Taker
    alive: Callable[[], bool]
    done: Callable[[object], None]


class SimulatedCommitter:
    """One committer; does one thing after the other.

    retire_epoch   producer epoch from which on names are left
    """

    def __init__(self, process: Process, brokers: Brokers, job: str, retire_epoch: int, terms: CheckpointTerms) -> None:
        config = KafkaSinkSettings.model_validate({"brokers": "kafka:9092", "topic": TOPIC, "delivery": "exactly-once"})
        context = SinkContext(job, SINK, 0, 1, schema_of({"row": "int64"}), checkpoint=terms)
        self._admin = _Admin(brokers)
        self.real = KafkaCommitter(config, context, retire_epoch=retire_epoch)
        self.real._admin = self._admin
        self.real._log = SinkLog(config, self._admin)
        self._process = process
        self._brokers = brokers

    def run(self, work: Work) -> None:
        """Does something."""
        self._admin.begin(work.by)
        self._run(work)

    def _run(self, work: Work) -> None:
        if not work.alive():
            return
        self._admin.rewind()
        try:
            result = work.what()
        except _NotYet as call:
            deadline_ms = self._brokers.world.now_ms + PATIENCE_MS
            self._ask(work, call, _Round(list(call.asked.items()), {}, deadline_ms))
        except HeadraceError as error:
            work.done(error)
        else:
            work.done(result)

    def _ask(self, work: Work, call: _NotYet, asking: _Round) -> None:
        """Asks name after name; what passes is asked again."""
        if not work.alive():
            return
        if not asking.left:
            self._admin.answered(asking.answers)
            self._run(work)
            return
        name, request = asking.left[0]

        def on_answer(answer: object) -> None:
            passes = isinstance(answer, Exception) or (isinstance(answer, int) and answer_to(answer) is Answer.RETRY)
            if not passes:
                asking.answers[name] = answer
                del asking.left[0]
                self._ask(work, call, asking)
            elif self._brokers.world.now_ms >= asking.deadline_ms:
                self._admin.answered(ExternalError(f"no answer about {name}", retry=True))
                self._run(work)
            else:
                self._process.after(AGAIN_MS, lambda: self._ask(work, call, asking))

        if call.denied is not None and self._brokers.refuses():
            request = partial(call.denied, name)
        self._brokers.call(self._process, name, request, on_answer)
