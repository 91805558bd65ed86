"""Keeps one producer warm, so that a transaction begins without waiting: a thread makes it and registers its name.

Knows nothing of records, and not which names there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.core.errors import ExternalError, HeadraceError
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.sink.records import TransactionalQueue

RENEWED_AFTER_S = 24 * 3_600.0
"""Brokers forget names that are long unused (7 days); a spare is registered anew before."""
_SLICE_S = 0.2
"""The client is asked for so long at a time, so that a close need not wait for brokers that are away."""
_PAUSE_S = 0.5
"""In it the client goes on by itself. Asked anew while its request is under way, it might send a second one, which
shuts out the producer of the first."""
_CONNECT_S = 0.12
"""A client that has no connection yet when it is asked looks again only after half a second: it gets time for it."""
_JOIN_S = 10.0


class SpareProducer:
    """At most one spare, under a name that is asked for.

    `want` and `close` may be called by any thread, `take` by the one that writes.
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
        """Has a producer of this name made; the one before was taken."""
        with self._changed:
            assert self._name is None, "there is one spare"
            self._name = name
            self._changed.notify_all()

    def take(self, patience_s: float) -> TransactionalQueue:
        """The spare, ready to begin. Waits for it; raises what cannot be healed at once, the rest after a while."""
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
        """Ends the thread and the spare; nothing is open in that. Idempotent."""
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
            # whatever it is, the writer raises it
            with self._changed:
                self._hopeless = error
                self._changed.notify_all()
        finally:
            with self._changed:
                ready, self._ready = self._ready, None
            if ready is not None:
                ready.close()

    def _next(self) -> str | None:
        """Waits until a spare is to be made, or made anew; None: no more."""
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
            if self._name != name:
                return
            idle, self._ready = self._ready, None
        if idle is not None:
            idle.close()
        made = self._make(name)
        try:
            registered = self._register(made)
        except BaseException:
            made.close()
            raise
        if not registered:
            made.close()
            return
        with self._changed:
            self._ready, self._error = made, None
            self._renew_at = time.monotonic() + self._renewed_after_s
            self._changed.notify_all()

    def _register(self, made: TransactionalQueue) -> bool:
        """False: closed meanwhile."""
        self._pause(_CONNECT_S)
        while not self._closed:
            error = made.init_transactions(_SLICE_S)
            if error is None:
                return True
            if self._error is None:
                LOG.info("a spare producer waits: %s", error)
            self._error = error
            self._pause(_PAUSE_S)
        return False

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)
