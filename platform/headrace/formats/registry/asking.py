"""Asks one registry for the ids that decoders meet: a thread that does what the table of ids decides.

The thread starts, and Confluent's client is imported, with the first id that is wanted. Requests are made one at a
time, outside of the lock, so callers never wait for a registry unless they ask to.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.clock import Clock, SystemClock
from headrace.formats.registry import id_table
from headrace.formats.registry.access import RegistryAccess
from headrace.formats.registry.id_table import IdKey, IdTable, Waiting
from headrace.formats.registry.schemas import SchemaId

if TYPE_CHECKING:
    from headrace.formats.registry.client import RegistryClient

CLOSE_SECONDS = 15.0
"""How long `close` waits for a request that is under way; the client gives up before."""


def open_client(access: RegistryAccess) -> RegistryClient:
    """Opens Confluent's client, which takes a quarter of a second to import."""
    from headrace.formats.registry.client import RegistryClient

    return RegistryClient(access)


class SchemaAsker:
    """The ids of one registry in one context, for all decoders of a job. Methods may be called from any thread."""

    def __init__(
        self,
        access: RegistryAccess,
        *,
        clock: Clock | None = None,
        open_client: Callable[[RegistryAccess], RegistryClient] = open_client,
    ) -> None:
        self._access = access
        self._clock = clock or SystemClock()
        self._open_client = open_client
        self._client: RegistryClient | None = None
        self._table = IdTable()
        self._asks: deque[id_table.Ask] = deque()
        """To be made; at most `id_table.REQUESTS_MAX`."""
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def look(self, ids: Sequence[SchemaId]) -> Mapping[SchemaId, id_table.Answer]:
        """What is known of these ids; asks for those of which nothing is. One that has no entry is to be asked for
        again: the table is full."""
        with self._changed:
            return self._looked(ids)

    def wait(self, ids: Sequence[SchemaId], timeout_s: float) -> Mapping[SchemaId, id_table.Answer]:
        """As `look`, once all of them are known or absent, or `timeout_s` are over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._are_settled(ids), timeout_s)
            return self._looked(ids)

    def waiting(self) -> tuple[tuple[IdKey, Waiting], ...]:
        """The ids that are waited for, the longest first."""
        with self._changed:
            return self._table.waiting()

    def close(self) -> None:
        """Ends the thread and closes the client. Idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _are_settled(self, ids: Sequence[SchemaId]) -> bool:
        found = self._looked(ids)
        return all(isinstance(found.get(each), id_table.Known | id_table.Absent) for each in ids)

    def _looked(self, ids: Sequence[SchemaId]) -> Mapping[SchemaId, id_table.Answer]:
        keys, now_ms = {each: self._key(each) for each in ids}, self._clock.monotonic_ms()
        if not self._is_closed:
            self._take(id_table.Wanted(tuple(keys.values())))
            if self._thread is None and self._asks:
                self._thread = threading.Thread(target=self._run, name="schema-registry", daemon=True)
                self._thread.start()
        answers = ((each, self._table.answer(key, now_ms)) for each, key in keys.items())
        return {each: answer for each, answer in answers if answer is not None}

    def _key(self, schema_id: SchemaId) -> IdKey:
        # a GUID is the same in every context
        return IdKey(self._access.url, self._access.context if isinstance(schema_id, int) else None, schema_id)

    def _take(self, event: id_table.Event) -> None:
        asks = self._table.handle(event, self._clock.monotonic_ms())
        if asks or not isinstance(event, id_table.Wanted):
            self._asks.extend(asks)
            self._changed.notify_all()

    # ---- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (ask := self._next()) is not None:
                event = self._answer(ask.key)
                with self._changed:
                    self._take(event)
        finally:
            if self._client is not None:
                self._client.close()

    def _next(self) -> id_table.Ask | None:
        """Waits for the next request; None: closed."""
        with self._changed:
            while not self._is_closed:
                if self._asks:
                    return self._asks.popleft()
                wake_ms = self._table.wake_ms()
                now_ms = self._clock.monotonic_ms()
                if wake_ms is not None and wake_ms <= now_ms:
                    self._take(id_table.Ticked())
                else:
                    self._changed.wait(None if wake_ms is None else (wake_ms - now_ms) / 1_000)
            return None

    def _answer(self, key: IdKey) -> id_table.Event:
        # jobs that lost a registry together do not ask again together: their clocks differ
        drawn = self._clock.monotonic_ms() % 1_000 / 1_000
        try:
            if self._client is None:
                self._client = self._open_client(self._access)
            return self._client.answer(key, drawn)
        except Exception as error:
            # without its thread all ids would wait, and nobody would know why
            return id_table.Failed(key, self._access.masked(f"{type(error).__name__}: {error}"), drawn)
