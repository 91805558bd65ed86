"""Which schema ids are known, asked for, waited for or absent: events in, effects out; time is an argument.

                 wanted                    learned
    (nothing) ───────────> asked for ──────────────────> known
                            │   ^  │ no such schema
              registry away │   │  └───────> doubted ──── said again, 10 s later ───> absent, for 30 s
                            v   │ asked again │
                         a pause ─────────────┘

A follower of a registry says "no such schema" of one that was registered a moment ago. So an id is absent only if the
registry has said so twice, `DOUBT_MS` apart, and was not found in between. Only `Absent` makes a row bad. While the
registry does not answer nothing is decided: all its ids wait, with growing pauses, and one request at a time finds out
whether it is back. An id whose schema cannot be used waits alone: it may be registered again.

Bounds: `IDS_MAX` ids, of which the least recently used known and absent ones are forgotten first; `REQUESTS_MAX`
requests at a time. An id for which there is no room is not noted: who wants it asks for it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from headrace.core.retry import Backoff
from headrace.formats.registry.schemas import SchemaId, WholeSchema

IDS_MAX = 4_096
REQUESTS_MAX = 8
DOUBT_MS = 10_000
ABSENT_MS = 30_000
UNUSABLE_MS = 30_000
AWAY_BACKOFF = Backoff(first_s=0.5, max_s=30.0, jitter=0.2)


@dataclass(frozen=True, slots=True)
class IdKey:
    """An id of one registry.

    registry  its address, without secrets
    context   None: the default one. GUIDs have none
    """

    registry: str
    context: str | None
    id: SchemaId

    def __str__(self) -> str:
        place = "" if self.context is None else f" of context {self.context}"
        return f"registry {self.registry}, schema {self.id}{place}"


# ---- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """A decoder met these ids."""

    keys: tuple[IdKey, ...]


@dataclass(frozen=True, slots=True)
class Learned:
    """The registry has the schema."""

    key: IdKey
    schema: WholeSchema


@dataclass(frozen=True, slots=True)
class NotFound:
    """The registry itself said that it has no such schema."""

    key: IdKey


@dataclass(frozen=True, slots=True)
class Failed:
    """The registry did not answer, or with an error. drawn: a random number from 0 to 1, for the pause."""

    key: IdKey
    reason: str
    drawn: float = 0.0


@dataclass(frozen=True, slots=True)
class Unusable:
    """The registry answered for this id with what cannot be used: rules, references without an end."""

    key: IdKey
    reason: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed: at `wake_ms` at the latest."""


Event = Wanted | Learned | NotFound | Failed | Unusable | Ticked


# ---- effects and answers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the registry, outside of any lock; the answer is an event."""

    key: IdKey


@dataclass(frozen=True, slots=True)
class Known:
    """The schema of an id."""

    schema: WholeSchema


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such schema, until `until_ms`."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing is decided. since_ms: when the id was first wanted; reason: why it still is, empty: not known."""

    since_ms: int
    reason: str = ""


Answer = Known | Absent | Waiting


@dataclass(slots=True)
class _Open:
    """An id that is neither known nor absent.

    asked       whether a request is under way
    next_ms     when to ask, if none is
    denied_ms   when the registry first said that there is none; None: it has not
    """

    since_ms: int
    next_ms: int
    asked: bool = False
    denied_ms: int | None = None
    reason: str = ""


@dataclass(slots=True)
class _Registry:
    """What is known of a registry that does not answer: no id of it is asked for before `next_ms`."""

    pause_s: float = 0.0
    next_ms: int = 0


@dataclass(slots=True)
class IdTable:
    """The ids of all registries of a job. `now_ms` is a monotonic time. Not thread-safe."""

    ids_max: int = IDS_MAX
    _open: OrderedDict[IdKey, _Open] = field(default_factory=OrderedDict)
    _settled: OrderedDict[IdKey, Known | Absent] = field(default_factory=OrderedDict)
    _denied_ms: dict[IdKey, int] = field(default_factory=dict)
    """When the registry first said of an absent id that there is none."""
    _registries: dict[str, _Registry] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open) + len(self._settled)

    def handle(self, event: Event, now_ms: int) -> tuple[Ask, ...]:
        """Takes an event; returns the requests to make now. Late answers, of ids that are no longer open, do nothing
        but for a schema, which is noted."""
        match event:
            case Wanted(keys):
                self._want(keys, now_ms)
            case Learned(key, schema):
                self._registries.pop(key.registry, None)
                self._open.pop(key, None)
                self._settle(key, Known(schema))
            case NotFound(key):
                self._registries.pop(key.registry, None)
                self._deny(key, now_ms)
            case Failed(key, reason, drawn):
                self._fail(key, reason, drawn, now_ms)
            case Unusable(key, reason):
                self._registries.pop(key.registry, None)
                self._set_aside(key, reason, now_ms)
            case Ticked():
                pass
            case _:
                assert_never(event)
        return self._due(now_ms)

    def answer(self, key: IdKey, now_ms: int) -> Answer | None:
        """What is known of an id; None: nothing, and nobody wants it. Known and absent ids count as used."""
        settled = self._settled.get(key)
        if settled is not None and not _is_over(settled, now_ms):
            self._settled.move_to_end(key)
            return settled
        entry = self._open.get(key)
        return None if entry is None else Waiting(entry.since_ms, entry.reason)

    def waiting(self) -> tuple[tuple[IdKey, Waiting], ...]:
        """All ids that are waited for, the longest first."""
        return tuple((key, Waiting(entry.since_ms, entry.reason)) for key, entry in self._open.items())

    def wake_ms(self) -> int | None:
        """When the next request is due; None: after the next answer, or never."""
        if self._requests() >= REQUESTS_MAX:
            return None
        return min((self._due_ms(key, entry) for key, entry in self._askable()), default=None)

    def _want(self, keys: Iterable[IdKey], now_ms: int) -> None:
        for key in keys:
            if isinstance(self.answer(key, now_ms), Known | Absent | Waiting):
                continue
            self._settled.pop(key, None)
            if len(self) >= self.ids_max and not self._forget():
                return
            self._open[key] = _Open(now_ms, now_ms, denied_ms=self._denied_ms.pop(key, None))

    def _deny(self, key: IdKey, now_ms: int) -> None:
        entry = self._open.get(key)
        if entry is None:
            return
        entry.asked = False
        if entry.denied_ms is None:
            entry.denied_ms, entry.next_ms = now_ms, now_ms + DOUBT_MS
            entry.reason = "it has no such schema, which is asked again"
        elif now_ms - entry.denied_ms >= DOUBT_MS:
            del self._open[key]
            self._settle(key, Absent(now_ms + ABSENT_MS))
            self._denied_ms[key] = entry.denied_ms
        else:
            entry.next_ms = entry.denied_ms + DOUBT_MS

    def _fail(self, key: IdKey, reason: str, drawn: float, now_ms: int) -> None:
        entry = self._open.get(key)
        if entry is not None:
            entry.asked, entry.reason = False, reason
        registry = self._registries.setdefault(key.registry, _Registry())
        if now_ms >= registry.next_ms:
            # requests that were under way together fail together: one pause
            registry.pause_s = AWAY_BACKOFF.next_s(registry.pause_s)
            registry.next_ms = now_ms + round(AWAY_BACKOFF.jittered_s(registry.pause_s, drawn) * 1_000)

    def _set_aside(self, key: IdKey, reason: str, now_ms: int) -> None:
        entry = self._open.get(key)
        if entry is not None:
            entry.asked, entry.reason, entry.next_ms = False, reason, now_ms + UNUSABLE_MS

    def _settle(self, key: IdKey, answer: Known | Absent) -> None:
        self._settled[key] = answer
        self._settled.move_to_end(key)
        while len(self) > self.ids_max and self._forget():
            pass

    def _forget(self) -> bool:
        """Forgets the id that was used least recently; False: all are open."""
        if not self._settled:
            return False
        key, _ = self._settled.popitem(last=False)
        self._denied_ms.pop(key, None)
        return True

    def _due(self, now_ms: int) -> tuple[Ask, ...]:
        room = REQUESTS_MAX - self._requests()
        asks: list[Ask] = []
        for key, entry in self._askable():
            if len(asks) >= room:
                break
            # an ask of this round may be the one that finds out whether its registry is back
            if self._due_ms(key, entry) <= now_ms and not (self._is_away(key) and _names(asks, key.registry)):
                entry.asked = True
                asks.append(Ask(key))
        return tuple(asks)

    def _requests(self) -> int:
        return sum(entry.asked for entry in self._open.values())

    def _askable(self) -> list[tuple[IdKey, _Open]]:
        """Open ids that are not asked for, but for those whose registry is away and being asked already."""
        asked = {key.registry for key, entry in self._open.items() if entry.asked and self._is_away(key)}
        return [(key, entry) for key, entry in self._open.items() if not entry.asked and key.registry not in asked]

    def _due_ms(self, key: IdKey, entry: _Open) -> int:
        registry = self._registries.get(key.registry)
        return entry.next_ms if registry is None else max(entry.next_ms, registry.next_ms)

    def _is_away(self, key: IdKey) -> bool:
        return key.registry in self._registries


def _names(asks: Iterable[Ask], registry: str) -> bool:
    return any(ask.key.registry == registry for ask in asks)


def _is_over(answer: Known | Absent, now_ms: int) -> bool:
    return isinstance(answer, Absent) and now_ms >= answer.until_ms
