"""Keeps one registered spare producer, so that a transaction begins without delay. A thread creates and registers it.

Knows neither records nor the set of names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.core.errors import ExternalError, HeadraceError
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.sink.records import TransactionalQueue
from headrace_connectors.kafka.transactions.errors import REGISTRATION_BACKOFF

RENEWED_AFTER_S = 24 * 3_600.0
"""Brokers forget unused names after 7 days; a spare is registered again before that."""
_SLICE_S = 0.2
"""Time limit of one call of the client, so that a close does not wait for unreachable brokers."""
_CONNECT_S = 0.12
"""Time to connect before the first call: a client without a connection at that moment tries again only after 0.5 s."""
_JOIN_S = 10.0


class SpareProducer:
    """At most one spare producer, under a requested name.

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
