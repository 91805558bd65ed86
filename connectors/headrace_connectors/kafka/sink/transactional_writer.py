"""The exactly-once writer: one producer per transaction, which a committer ends later, in another process.

    rows ─> producer A, in a transaction ── barrier 7: flush, zero errors ─> A is dropped, its transaction prepared
                                            rows after the barrier ─> producer B, registered meanwhile
    committed(7): A's name may be reused

Producer B sends only after A's flush, so the log keeps the order of emission. A dropped producer neither commits nor
aborts: nothing in this process can undo a prepared transaction. An epoch without rows opens no transaction.

Records are counted and hashed while they are sent. Without kernels, many small batches are hashed together, because a
call then costs as much as a thousand rows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import pyarrow as pa

from headrace.connect.sink import Committable, SinkBatch, SinkContext, WriterTransaction
from headrace.core.config import duration_text
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.text.digest_text import add_digests, digest_text
from headrace.kernels.kafka.row_digest import digest_of
from headrace.kernels.library import is_loaded
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.config import KafkaSinkSettings, message_timeout_ms
from headrace_connectors.kafka.librdkafka.tested_versions import version_of
from headrace_connectors.kafka.requests.protocol import protocol_of_library, recorded
from headrace_connectors.kafka.sink.producers import open_transactional_producer
from headrace_connectors.kafka.sink.record_sender import AcceptedRecords, RecordSender
from headrace_connectors.kafka.sink.records import Records, TransactionalQueue
from headrace_connectors.kafka.transactions.errors import REGISTRATION_BACKOFF

RENEWED_AFTER_S = 24 * 3_600.0
"""Brokers forget unused names after 7 days; a spare is registered again before that."""
_SLICE_S = 0.2
"""Time limit of one call of the client, so that a close does not wait for unreachable brokers."""
_CONNECT_S = 0.12
"""Time to connect before the first call: a client without a connection at that moment tries again only after 0.5 s."""
_JOIN_S = 10.0


class SpareProducer:
    """Keeps at most one registered spare producer, under a requested name, so that a transaction begins without delay.
    A thread creates and registers it.

    `want` and `close` may be called by any thread, `take` by the writing thread.
    """

    def __init__(
        self, make: Callable[[str], TransactionalQueue], *, owner: str, renewed_after_s: float = RENEWED_AFTER_S
    ) -> None:
        self._make, self._renewed_after_s = make, renewed_after_s
        self._changed = threading.Condition()
        self._name: str | None = None
        self._ready: TransactionalQueue | None = None
        self._renew_at = 0.0
        self._error: HeadraceError | None = None
        self._hopeless: Exception | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"spare-{owner}", daemon=True)
        self._thread.start()

    def want(self, name: str) -> None:
        """Requests a producer with this name; the previous one was taken."""
        with self._changed:
            assert self._name is None, "there is one spare"
            self._name = name
            self._changed.notify_all()

    def take(self, patience_s: float) -> TransactionalQueue:
        """Waits for the registered spare and returns it. Raises unrecoverable errors at once, others after
        `patience_s`."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._hopeless is not None or self._ready is not None, patience_s
            )
            if self._hopeless is not None:
                raise self._hopeless
            if self._closed:
                raise ExternalError("the sink was closed while it waited for a producer", retry=True)
            if self._ready is None:
                reason = "" if self._error is None else f": {self._error.message}"
                raise ExternalError(
                    f"no transaction could begin within {patience_s:.0f} s{reason}",
                    remedy=None if self._error is None else self._error.remedy,
                    retry=True,
                )
            ready, self._ready, self._name = self._ready, None, None
            return ready

    def close(self) -> None:
        """Ends the thread and closes the spare, which has no open transaction. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (name := self._next()) is not None:
                self._replace(name)
        except Exception as error:
            # any failure: the writer raises it
            with self._changed:
                self._hopeless = error
                self._changed.notify_all()
        finally:
            with self._changed:
                ready, self._ready = self._ready, None
            if ready is not None:
                ready.close()

    def _next(self) -> str | None:
        """Waits until a spare must be created or renewed; None: closed."""
        with self._changed:
            while not self._closed:
                if self._name is not None and self._ready is None:
                    return self._name
                left = self._renew_at - time.monotonic() if self._ready is not None else None
                if left is not None and left <= 0:
                    return self._name
                self._changed.wait(left)
            return None

    def _replace(self, name: str) -> None:
        with self._changed:
            # `take` was faster: the producer of this name is in use
            if self._name != name:
                return
            # removed before the next one registers: that fences this one, so `take` must not return it any more
            idle, self._ready = self._ready, None
        if idle is not None:
            idle.close()
        producer = self._make(name)
        try:
            registered = self._register(producer)
        except BaseException:
            producer.close()
            raise
        if not registered:
            producer.close()
            return
        with self._changed:
            self._ready, self._error = producer, None
            self._renew_at = time.monotonic() + self._renewed_after_s
            self._changed.notify_all()

    def _register(self, made: TransactionalQueue) -> bool:
        """Registers the name with the brokers; False: closed meanwhile."""
        pause_s = 0.0
        self._pause(_CONNECT_S)
        while not self._closed:
            error = made.init_transactions(_SLICE_S)
            if error is None:
                return True
            if self._error is None:
                LOG.info("a spare producer waits: %s", error)
            self._error = error
            # not `Retries`, whose pause a close cannot interrupt
            pause_s = REGISTRATION_BACKOFF.next_s(pause_s)
            self._pause(pause_s)
        return False

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)


# ---- the writer ------------------------------------------------------------------------------------------------------


_CLOSE_WAIT_S = 2.0
TOGETHER_ROWS = 8_192
TOGETHER_BYTES = 4 << 20
"""Bounds of the rows that wait to be hashed without kernels."""


class RunningDigest:
    """Digest of one writer's records: either all of them have keys, or none."""

    def __init__(self) -> None:
        self.rows = 0
        self._digest = 0
        self._rows_max = 1 if is_loaded() else TOGETHER_ROWS
        self._waiting: list[Records] = []
        self._waiting_rows = self._waiting_bytes = 0

    def add(self, records: Records) -> None:
        """Adds records."""
        self.rows += len(records)
        self._waiting.append(records)
        self._waiting_rows += len(records)
        self._waiting_bytes += records.nbytes
        if self._waiting_rows >= self._rows_max or self._waiting_bytes >= TOGETHER_BYTES:
            self._hash()

    def text(self) -> str:
        """The digest so far, as `core.digest_text` formats it."""
        self._hash()
        return digest_text(self._digest)

    def _hash(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_rows = self._waiting_bytes = 0
        if not waiting:
            return
        keys = [each.keys for each in waiting if each.keys is not None]
        assert len(keys) in (0, len(waiting)), "a sink has a key or has none"
        values = _joined([each.values for each in waiting])
        self._digest = add_digests(self._digest, digest_of(values, _joined(keys) if keys else None))


def _joined(columns: list[pa.Array]) -> pa.Array:
    # pyarrow copies even a single column
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


@dataclass(slots=True)
class _Transaction:
    """The open transaction: its name, and its records so far."""

    name: str
    queue: TransactionalQueue
    digest: RunningDigest = field(default_factory=RunningDigest)


class TransactionalWriter:
    """Writes to one topic. `write` and `flush` are called by one thread, `committed` and `close` by any.

    Raises UserError for a librdkafka with an unknown transaction protocol.
    """

    def __init__(
        self, config: KafkaSinkSettings, context: SinkContext, *, renewed_after_s: float = RENEWED_AFTER_S
    ) -> None:
        self._config, self._context = config, context
        self._producer = _producer_record()
        self._sender = RecordSender(config, context, transactional=True)
        self._accepted = AcceptedRecords(config, context, self._sender)
        self._patience_s = message_timeout_ms(config.properties, config.transaction_timeout_ms) / 1000
        self._open: _Transaction | None = None
        self._begun_s: dict[str, float] = {}
        """When the transactions that `transactions` shows were begun (monotonic, in s)."""
        self._closed = False
        # held while the producer is in use: a close by another thread must not free it during a call
        self._in_use = threading.Lock()
        self._changed = threading.Condition()
        self._lanes = TransactionLanes(config.transactions(context))
        self._spare = SpareProducer(
            lambda name: open_transactional_producer(config, name),
            owner=f"{context.node}-{context.subtask}",
            renewed_after_s=renewed_after_s,
        )
        self._keep_a_spare()

    def write(self, batch: SinkBatch) -> None:
        """Queues rows that Kafka does not refuse in the open transaction; blocks while the bounded queue is full, or no
        name is free."""
        records = self._accepted.of(batch) if len(batch) else None
        if records is None:
            return
        with self._in_use:
            opened = self._open or self._begin()
            self._sender.send(opened.queue, records)
            opened.digest.add(records)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Prepares the open transaction; returns every prepared one that is not known to be committed."""
        with self._in_use:
            if self._open is not None:
                # raises if a record failed: then nothing is prepared, and the checkpoint fails
                self._open.queue.flush()
                self._open.queue.drop()
                prepared, self._open = self._committable(self._open, epoch), None
                with self._changed:
                    self._lanes.prepared(prepared)
        with self._changed:
            return self._lanes.pending

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Frees the names of committed transactions."""
        with self._changed:
            self._lanes.committed(epoch, successors)
            used = {self._lanes.opened, *(each.name for each in self._lanes.pending)}
            self._begun_s = {name: begun_s for name, begun_s in self._begun_s.items() if name in used}
            self._changed.notify_all()
        self._keep_a_spare()

    def transactions(self) -> Sequence[WriterTransaction]:
        """The prepared transactions, and the open one. Waits for no call of the client."""
        now_s = time.monotonic()
        with self._changed:
            opened, begun_s = self._lanes.opened, dict(self._begun_s)
        return [
            WriterTransaction(self._context.node, name, round((now_s - at_s) * 1000), prepared=name != opened)
            for name, at_s in sorted(begun_s.items(), key=lambda item: item[1])
        ]

    def close(self) -> None:
        """Aborts the open transaction; prepared ones stay as they are. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._spare.close()
        # if a call of the client hangs, its transaction stays open: a fence, or its timeout, aborts it at the brokers
        if self._in_use.acquire(timeout=_CLOSE_WAIT_S):
            try:
                opened, self._open = self._open, None
                if opened is not None:
                    opened.queue.close()
            finally:
                self._in_use.release()

    def _begin(self) -> _Transaction:
        self._wait_for_a_name()
        queue = self._spare.take(self._patience_s)
        with self._changed:
            # only now: if `take` raises, the spare keeps the name
            name = self._lanes.open()
            self._begun_s[name] = time.monotonic()
        # before `begin_transaction`, which may raise: `close` must close this producer
        self._open = _Transaction(name, queue)
        self._keep_a_spare()
        queue.begin_transaction()
        return self._open

    def _keep_a_spare(self) -> None:
        with self._changed:
            name = None if self._closed else self._lanes.begin_spare()
            if name is not None:
                self._spare.want(name)

    def _wait_for_a_name(self) -> None:
        limit_ms = self._config.transaction_timeout_ms
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._lanes.spare is not None, limit_ms / 1000)
            if self._closed:
                raise ExternalError(f"sink {self._context.node!r} was closed", retry=True)
            if self._lanes.spare is None:
                epochs = ", ".join(str(item.epoch) for item in self._lanes.pending)
                raise ExternalError(
                    f"sink {self._context.node!r}: all transactions are in use, because those of epochs {epochs} were "
                    f"not committed within {duration_text(limit_ms)}",
                    remedy="find out why checkpoints do not complete; checkpoint.tolerable_failures adds one "
                    "transaction for each checkpoint that may fail in a row",
                    retry=True,
                )

    def _committable(self, transaction: _Transaction, epoch: int) -> Committable:
        return Committable(
            sink=self._context.node,
            subtask=self._context.subtask,
            epoch=epoch,
            payload={"topic": self._config.topic} | self._producer,
            name=transaction.name,
            rows=transaction.digest.rows,
            digest=transaction.digest.text(),
        )


def _producer_record() -> dict[str, Any]:
    """The committable's record of this process's client library."""
    version = version_of(confluent_kafka.libversion()[1])
    return recorded(protocol_of_library(version), version)


class TransactionLanes:
    """The transactional ids of one writer. Each is free, spare, open or prepared. Pure: knows no client and no thread.

        free ──begin_spare──> spare ──open──> open ──prepared(7)──> prepared ──committed(7)──> free, or a new name is

    At most one name is spare: its producer is registered for the next transaction. At most one is open. A name becomes
    free only when its transaction is committed and the journal records that: to register it earlier (InitProducerId)
    would abort a decided transaction.
    """

    def __init__(self, names: Sequence[str]) -> None:
        assert len(names) == len(set(names)) > 0, "a writer's names differ"
        # first in, first out: the brokers have had most time to complete the last transaction of the first name
        self._free = deque(names)
        self._spare: str | None = None
        self._open: str | None = None
        self._prepared: list[Committable] = []

    @property
    def spare(self) -> str | None:
        """The name that the spare producer has, or will have."""
        return self._spare

    @property
    def opened(self) -> str | None:
        """The name of the open transaction."""
        return self._open

    @property
    def pending(self) -> tuple[Committable, ...]:
        """The committables that are prepared and not yet recorded as committed, oldest first."""
        return tuple(self._prepared)

    def begin_spare(self) -> str | None:
        """Makes a free name the spare one, and returns it. None: there is a spare name already, or no name is free."""
        if self._spare is not None or not self._free:
            return None
        self._spare = self._free.popleft()
        return self._spare

    def open(self) -> str:
        """Makes the spare name the open one, and returns it."""
        assert self._open is None, "one transaction is open at a time"
        assert self._spare is not None, "a transaction opens under the spare name"
        self._open, self._spare = self._spare, None
        return self._open

    def prepared(self, committable: Committable) -> None:
        """Records that the open transaction is complete and waits for its commit."""
        assert committable.name == self._open, "only the open transaction can be prepared"
        self._prepared.append(committable)
        self._open = None

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Frees the names that were prepared in epochs up to `epoch`. successors: name -> the name that replaces it."""
        # transactions of an aborted epoch stay prepared, and the commit of a later epoch includes them
        for item in self._prepared:
            if item.epoch <= epoch:
                self._free.append(successors.get(item.name, item.name))
        self._prepared = [item for item in self._prepared if item.epoch > epoch]
