"""Consumes assigned partitions in batches, up to each partition's stop.

Must not know time, formats, or the kind of its consumer. The job owns the positions: the reader assigns them, never
subscribes, and never lets the client choose another offset.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headrace.connect.source import MessageBatch, Offsets, Polled, Run, SourceContext, Split, SplitId
from headrace.core.errors import ExternalError, HeadraceError
from headrace_connectors.kafka.clients.client import (
    LOG,
    UNKNOWN_TOPIC_CODES,
    ClientWatch,
    base_settings,
    open_admin,
    translated,
)
from headrace_connectors.kafka.config import KafkaSourceSettings
from headrace_connectors.kafka.librdkafka.native_library import library
from headrace_connectors.kafka.source.consumers import ClientConsumer, NativeConsumer, take_of
from headrace_connectors.kafka.source.enumerator import out_of_range
from headrace_connectors.kafka.source.fetched import Columns, Fetched, FetchEvent, FetchWish, RecordFetcher, joined
from headrace_connectors.kafka.source.runs import Piece
from headrace_connectors.kafka.source.topic_watch import IdentityWatch, TopicWatch

WAIT_S = 0.005
"""Time in s for which the client waits for a whole chunk: the latency at low rates."""
MIN_WAIT_S = 0.001
QUIET_WAIT_S = 0.1
"""The longest wait in s for a first record."""
PLENTY_ROWS = 2_000
"""This many records within one wait mean that more will follow: then a poll continues, up to its limit."""
LAG_INTERVAL_S = 0.5
COMMIT_SETTLE_S = 2.0

# errors after which the client recovers on its own; it does not report all of them as retriable
_HEALS_BY_ITSELF = UNKNOWN_TOPIC_CODES | frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


@dataclass(slots=True)
class _Gathered:
    """The records of one poll so far."""

    rows: int = 0
    columns: list[Columns] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    moved: dict[SplitId, int] = field(default_factory=dict)

    def add_run(self, split: SplitId, length: int) -> None:
        """Appends a run; merges it with the last one if both are of the same partition."""
        begin, self.rows = self.rows, self.rows + length
        if self.runs and self.runs[-1].split == split:
            begin = self.runs.pop().begin
        self.runs.append(Run(split, begin, self.rows))


class KafkaReader:
    """One consumer. Holds at most `poll_rows_max` records in Python at any time."""

    def __init__(self, config: KafkaSourceSettings, context: SourceContext) -> None:
        self._config = config
        self._context = context
        self._watch = ClientWatch(config.brokers)
        self._commits = OffsetCommits()
        wish = FetchWish(
            self._settings(),
            self._watch,
            self._commits.on_commit,
            wants_keys=context.wants_keys,
            wants_timestamps=context.wants_timestamps,
            wants_headers=context.wants_headers,
        )
        self._fetcher = open_fetcher(wish)
        self._commits.bind(self._fetcher)
        self._positions: dict[SplitId, int] = {}
        self._stops: dict[SplitId, int] = {}
        self._at_end: set[SplitId] = set()
        self._finished: set[SplitId] = set()
        self._topics = TopicWatch(config.brokers)
        self._identities = IdentityWatch(context.node, config.brokers, config.properties)
        self._group = GroupUse(config.group_id(context), config.brokers, config.properties)
        self._lag: dict[SplitId, int] = {}
        self._lag_due = 0.0
        self._quiet = False
        """Whether the last fetch returned nothing."""
        self._closed = False

    def _settings(self) -> dict[str, Any]:
        # order: defaults that the pipeline may override, then settings that headrace must hold
        return {
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 100,
            **base_settings(self._config.brokers, self._config.properties, self._watch),
            "group.id": self._config.group_id(self._context),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # an offset that no longer exists must raise: any other policy would skip or repeat records silently
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds partitions, each from its `start`: after a restore that is the position of the checkpoint."""
        places = {}
        self._identities.add(splits)
        for split in splits:
            assert split.id not in self._positions, f"{split.id} is assigned already"
            self._positions[split.id] = split.start
            if split.stop is not None:
                self._stops[split.id] = split.stop
                if split.start >= split.stop:
                    self._finished.add(split.id)
                    continue
            places[split.id] = split.start
        self._topics.returned_rows({split.id.topic for split in splits}, time.monotonic())
        if places:
            self._fetcher.assign(places)
        if self._config.group is not None:
            # nobody else uses a group that is named after pipeline and node
            self._group.ask()

    def identify(self, splits: Sequence[Split]) -> None:
        """Adds splits whose topics `verified` checks, also if their rows come from elsewhere."""
        self._identities.add(splits)

    def verified(self, timeout_ms: int) -> bool:
        """Whether the topics are those that the splits were resolved in; waits for the answer up to `timeout_ms`.
        Raises UserError if one is not."""
        return self._identities.verified(time.monotonic() + timeout_ms / 1000)

    def confirm(self) -> None:
        """Raises UserError if a topic is another one than that of its splits: the rows read so far may be of both."""
        self._identities.require_same()

    def poll(self, timeout_ms: int) -> Polled:
        """Waits for rows: at low rates returns the rows of 5 ms, at high rates up to the limit.

        After a fetch without records it waits for a first record, and then for those of the next 5 ms.
        """
        self._watch.raise_if_hopeless()
        deadline = time.monotonic() + timeout_ms / 1000
        if not self._identities.verified(deadline):
            return Polled()
        finished_before = frozenset(self._finished)
        self._finished.clear()
        gathered = self._gather(deadline)
        finished = finished_before | self._finished
        self._finished.clear()
        if gathered.runs:
            self._topics.returned_rows({run.split.topic for run in gathered.runs}, time.monotonic())
        return Polled(
            batch=self._batch(gathered) if gathered.rows else None,
            positions=gathered.moved,
            at_end=frozenset(self._at_end),
            finished=finished,
            lag=self._current_lag(),
            remarks=self._group.remarks(refused=self._commits.refused),
        )

    def _gather(self, deadline: float) -> _Gathered:
        gathered = _Gathered()
        rows_max = self._context.poll_rows_max
        while gathered.rows < rows_max:
            # The client returns as soon as it has all that it is asked for: asked for one record, it may wait for long,
            # and the record does not.
            quiet = self._quiet
            asked = 1 if quiet else min(self._fetcher.chunk_rows, rows_max - gathered.rows)
            left = deadline - time.monotonic()
            # librdkafka waits in whole milliseconds: for less it would not wait, and this loop would spin
            wait = min(QUIET_WAIT_S if quiet else WAIT_S, left) if left >= MIN_WAIT_S else 0.0
            fetched = self._fetcher.fetch(asked, wait)
            self._take(fetched, gathered)
            self._quiet = not len(fetched) and not gathered.rows
            if len(fetched) < min(asked, PLENTY_ROWS) and (gathered.rows or self._finished or not wait):
                break
        return gathered

    def _take(self, fetched: Fetched, gathered: _Gathered) -> None:
        columns = fetched.columns
        if columns is not None:
            kept = [cut for piece in fetched.pieces if (cut := self._advance(piece, gathered)) is not None]
            if sum(piece.end - piece.begin for piece in kept) == len(columns.values):
                gathered.columns.append(columns)
            else:
                gathered.columns += [columns.slice(piece.begin, piece.end) for piece in kept]
        for event in fetched.events:
            self._on_event(event, gathered)

    def _advance(self, piece: Piece, gathered: _Gathered) -> Piece | None:
        """Advances the position over a piece; returns its part before the partition's stop."""
        split = piece.split
        if piece.offsets[0] < self._positions[split]:
            text = f"{split} was read at offset {self._positions[split]}, and offset {piece.offsets[0]} came"
            raise ExternalError(f"source {self._context.node}: {text}", retry=True)
        stop = self._stops.get(split)
        if stop is not None:
            if self._positions[split] >= stop:
                return None
            if piece.next_position >= stop:
                keep = int(np.searchsorted(piece.offsets, stop))
                piece = Piece(split, piece.begin, piece.begin + keep, piece.offsets[:keep])
                self._finish(split)
                # not the last record's offset + 1: offsets before the stop may not exist (compaction, control records)
                gathered.moved[split] = self._positions[split] = stop
                if not keep:
                    return None
        if stop is None or self._positions[split] < stop:
            gathered.moved[split] = self._positions[split] = piece.next_position
        self._at_end.discard(split)
        gathered.offsets.append(piece.offsets)
        gathered.add_run(split, piece.end - piece.begin)
        return piece

    def _finish(self, split: SplitId) -> None:
        self._finished.add(split)
        self._at_end.discard(split)
        self._lag.pop(split, None)
        self._fetcher.unassign(split)

    def _batch(self, gathered: _Gathered) -> MessageBatch:
        columns = joined(gathered.columns)
        return MessageBatch(
            values=columns.values,
            positions=np.concatenate(gathered.offsets),
            runs=tuple(gathered.runs),
            timestamps=columns.timestamps,
            keys=columns.keys,
            headers=columns.headers,
        )

    def _on_event(self, event: FetchEvent, gathered: _Gathered) -> None:
        error, split = event.error, event.split
        match error.code():
            case KafkaError._PARTITION_EOF if split is not None:
                self._on_end(split, event.offset, gathered)
            case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE if split in self._positions:
                raise self._out_of_range(split)
            case code if code in _HEALS_BY_ITSELF or (error.retriable() and not error.fatal()):
                LOG.info("%s waits: %s", self._context.node, error)
            case _:
                raise translated(error, self._config.brokers)

    def _on_end(self, split: SplitId, offset: int | None, gathered: _Gathered) -> None:
        """Handles the log end at `offset`: it may lie behind control records and compacted gaps, which are never
        delivered."""
        position, stop = self._positions[split], self._stops.get(split)
        if offset is None or offset < position or (stop is not None and position >= stop):
            return
        if offset > position:
            gathered.moved[split] = self._positions[split] = offset if stop is None else min(offset, stop)
        if stop is not None and offset >= stop:
            self._finish(split)
        else:
            self._at_end.add(split)

    def _out_of_range(self, split: SplitId) -> HeadraceError:
        # the position does not exist, perhaps because the topic is another one: that is the better reason
        self._identities.require_same()
        try:
            low, high = self._fetcher.log_bounds(split, 5.0)
        except KafkaException as cause:
            return translated(cause.args[0], self._config.brokers)
        return out_of_range(split, self._positions[split], low, high)

    def log_bounds(self, split: SplitId, timeout_s: float) -> tuple[int, int] | None:
        """The first offset of a partition's log and the one after its last, also if it is not assigned; None if no
        broker answers in time."""
        try:
            return self._fetcher.log_bounds(split, timeout_s)
        except KafkaException as cause:
            LOG.info("the bounds of %s are not known: %s", split, cause.args[0])
            return None

    def _current_lag(self) -> Mapping[SplitId, int]:
        now = time.monotonic()
        if now >= self._lag_due:
            self._lag_due = now + LAG_INTERVAL_S
            self._lag = {split: lag for split in self._active() if (lag := self._lag_of(split)) is not None}
            self._topics.check(self._fetcher, now)
        # a copy: its receiver reads it while another thread polls
        return dict(self._lag)

    def _active(self) -> list[SplitId]:
        stops = self._stops
        return [split for split, at in self._positions.items() if split not in stops or at < stops[split]]

    def _lag_of(self, split: SplitId) -> int | None:
        end = self._fetcher.known_end(split)
        return None if end is None else max(end - self._positions[split], 0)

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops fetching these partitions; prefetched records are discarded and fetched again later."""
        self._fetcher.pause(self._read_on(splits))

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues paused partitions."""
        self._fetcher.resume(self._read_on(splits))

    def _read_on(self, splits: Sequence[SplitId]) -> list[SplitId]:
        active = set(self._active())
        return [split for split in splits if split in active]

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Publishes positions to the consumer group, asynchronously."""
        self._commits.request(positions)

    def close(self) -> None:
        """Waits up to 2 s for commits in flight, then leaves the group."""
        if self._closed:
            return
        self._closed = True
        self._identities.close()
        self._commits.settle(COMMIT_SETTLE_S)
        self._fetcher.close()


def open_fetcher(wish: FetchWish) -> RecordFetcher:
    """A consumer without partitions. Raises UserError for invalid settings."""
    found = library()
    take = None if found is None else take_of(found, wish)
    if found is None or take is None:
        return ClientConsumer(wish)
    return NativeConsumer(found, wish, take)


# ---- positions in the consumer group ---------------------------------------------------------------------------------


ANSWER_S = 10.0
"""Time limit of the request for the group, in s."""
REFUSED_CODES = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
)
"""Errors of a commit to a group that has members."""


class OffsetCommits:
    """Publishes positions to the consumer group: for monitoring and for `start: committed`, never for recovery.

    At most one request is in flight; newer positions replace waiting ones. Failures are counted, not raised:
    checkpoints hold the authoritative positions. Its callback runs inside the consumer's own poll.
    """

    def __init__(self) -> None:
        self._fetcher: RecordFetcher | None = None
        self._waiting: dict[SplitId, int] = {}
        self._in_flight = False
        self.failures = 0
        self.refused = False
        """Whether a commit has failed because the group has members."""

    def bind(self, fetcher: RecordFetcher) -> None:
        """Sets the consumer to commit with, which was opened with `committed=self.on_commit`."""
        self._fetcher = fetcher

    def request(self, positions: Mapping[SplitId, int]) -> None:
        """Requests these positions to be published. Never blocks."""
        self._waiting.update(positions)
        self._send()

    def on_commit(self, error: KafkaError | None) -> None:
        """The consumer's `committed`: the error of the commit or of one of its partitions."""
        self._in_flight = False
        if error is not None:
            self.failures += 1
            self.refused = self.refused or error.code() in REFUSED_CODES
            LOG.info("group offsets were not committed: %s", error)
        self._send()

    def settle(self, timeout_s: float) -> None:
        """Waits until no request is in flight or the time is up; records that arrive meanwhile are lost."""
        assert self._fetcher is not None
        deadline = time.monotonic() + timeout_s
        while self._in_flight and time.monotonic() < deadline:
            self._fetcher.fetch(1, 0.05)

    def _send(self) -> None:
        if self._in_flight or not self._waiting or self._fetcher is None:
            return
        positions, self._waiting = self._waiting, {}
        try:
            self._fetcher.commit(positions)
            self._in_flight = True
        except KafkaException as error:
            self.failures += 1
            LOG.info("group offsets were not committed: %s", error)


class GroupUse:
    """Asks for the group once, without waiting, and remarks on its members at most once.

    A group with members takes offsets from its members only. A source is none: it assigns its partitions itself. Its
    positions are then not published, and only a warning shows it.
    """

    def __init__(self, group: str, brokers: str, properties: Mapping[str, str]) -> None:
        self._group = group
        self._brokers = brokers
        self._properties = properties
        # the client lives until the answer is there
        self._pending: tuple[AdminClient, Future[Any]] | None = None
        self._asked = self._remarked = False

    def ask(self) -> None:
        """Sends the request, unless it was sent."""
        if not self._asked:
            self._asked = True
            admin = open_admin(self._brokers, self._properties, ClientWatch(self._brokers))
            asked = admin.describe_consumer_groups([self._group], request_timeout=ANSWER_S)
            self._pending = (admin, asked[self._group])

    def remarks(self, *, refused: bool) -> tuple[str, ...]:
        """A remark for users on the group. refused: whether a commit has failed because it has members."""
        if self._remarked or not (refused or self._has_members()):
            return ()
        self._remarked = True
        return (
            f"another consumer uses group {self._group}, so Kafka refuses the offsets of this job there: monitoring "
            "and `start: committed` do not see its positions. Give it a `group:` of its own",
        )

    def _has_members(self) -> bool:
        if self._pending is None or not self._pending[1].done():
            return False
        (_, answer), self._pending = self._pending, None
        try:
            return bool(answer.result().members)
        except KafkaException as error:
            # a group that does not exist, or may not be described: a commit tells
            LOG.info("group %s is not described: %s", self._group, error)
            return False
