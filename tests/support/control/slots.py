"""Slots of one attempt inside this process, over the real transport, with a small coordinator that a test drives.

Attempt(pipeline, storage) -> deploys parallelism many SlotRuntimes, hands out splits
.epoch()  -> a barrier through all of them, acknowledged, completed: a Snapshot, from which another attempt starts
.run_to_the_end(), .cancel()
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.checkpoint.manifest import SUBTASK_DOCUMENTS, SplitDocument, StateHandle, SubtaskDocument
from headrace.checkpoint.paths import joined
from headrace.checkpoint.savepoints.verdict import is_hashed
from headrace.core.source_state import SourceState, SplitState, merged
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.link import LinkTimes
from headrace.execution.idle_times import relayed_heights
from headrace.execution.split_assignment import subtask_of
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.contexts import source_context
from headrace.plan.explain import plan_dict
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.rpc import codec
from headrace.rpc.deployment import ASSIGNED_SPLITS, AssignedSplitDocument, Deployment, PeerDocument
from headrace.rpc.messages import (
    Acked,
    AssignSplits,
    CancelSlot,
    Declined,
    Deploy,
    Deployed,
    EpochAborted,
    EpochCompleted,
    Failed,
    FinishSlot,
    InputEnded,
    LimitTime,
    RelayHeights,
    Status,
    ToSlot,
    TriggerEpoch,
)
from headrace.rpc.status import SlotStatus
from headrace.spec.pipeline import Pipeline
from headrace.worker.slot.runtime import SlotRuntime
from support.patience import WAIT_SECONDS

FAILED_WAIT_S = 10.0
PATIENT = LinkTimes(lost_ms=round(2_000 * WAIT_SECONDS))
"""Nobody is lost for being slow."""


@dataclass(frozen=True)
class Snapshot:
    """A completed epoch. `states` have paths relative to the storage; `splits`: source -> all that were handed out."""

    epoch: int
    states: tuple[StateHandle, ...]
    savepoint: tuple[StateHandle, ...]
    sources: dict[str, SourceState]
    splits: dict[str, tuple[SplitDocument, ...]]
    max_parallelism: int


class SlotFailedError(AssertionError):
    """A slot said Failed; the message is its own."""


@dataclass
class _Said:
    """What the slots said, for a test that waits."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    deployed: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    acked: dict[int, dict[int, Acked]] = field(default_factory=dict)
    declined: dict[int, Declined] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)
    status: dict[int, SlotStatus] = field(default_factory=dict)


class Attempt:
    """One attempt, deployed and reading."""

    def __init__(
        self,
        pipeline: Pipeline,
        storage: Path,
        *,
        number: int = 1,
        restored: Snapshot | None = None,
        from_savepoint: bool = False,
        mode: Literal["exactly-once", "at-least-once"] = "exactly-once",
        change: Callable[[Deployment], Deployment] = lambda deployment: deployment,
    ) -> None:
        self.plan = compile_pipeline(pipeline).physical
        self._storage = storage
        self._number = number
        self._next_epoch = 1 if restored is None else restored.epoch + 1
        self._said = _Said()
        slots = max(task.parallelism for task in self.plan.tasks)
        listeners = [Listener("127.0.0.1", storage / "sockets", times=PATIENT) for _ in range(slots)]
        peers = tuple(
            PeerDocument(index=index, host=each.address.host, port=each.address.port, unix_path=each.address.unix_path)
            for index, each in enumerate(listeners)
        )
        handles = () if restored is None else restored.savepoint if from_savepoint else restored.states
        if restored is not None and restored.max_parallelism != self.plan.max_parallelism:
            handles = tuple(hashed_anew(each, self.plan.max_parallelism) for each in handles)
        self.slots: list[SlotRuntime] = []
        for index, listener in enumerate(listeners):
            deployment = Deployment(
                pipeline=pipeline.to_dict(),
                plan_hash=plan_dict(self.plan)["hash"],
                slot=index,
                slots=slots,
                peers=peers,
                storage=str(storage),
                restore=handles,
                mode=mode,
                watermark_interval_ms=5,
            )
            deploy = Deploy("job", number, "secret", change(deployment).model_dump_json().encode())
            self.slots.append(SlotRuntime(listener, self._hear(index)))
            self.slots[index].obey(deploy)
        self._splits: dict[str, tuple[SplitDocument, ...]] = {}
        try:
            self._wait(lambda: len(self._said.deployed) == slots, "not every slot was deployed")
            for source in sources_of(self.plan):
                self._assign(source, restored)
        except BaseException:
            self.close()
            raise

    # ---- what slots say ----------------------------------------------------------------------------------------------

    def _hear(self, index: int) -> Callable[[bytes], None]:
        def hear(payload: bytes) -> None:
            said, heard = codec.from_slot(payload), self._said
            with heard.changed:
                match said:
                    case Deployed():
                        heard.deployed.add(index)
                    case InputEnded():
                        heard.ended.add(index)
                    case Acked():
                        heard.acked.setdefault(said.epoch, {})[index] = said
                    case Declined():
                        heard.declined[said.epoch] = said
                    case Failed():
                        heard.failed.append(said)
                    case Status():
                        heard.status[index] = SlotStatus.model_validate_json(said.status)
                        self._relay()
                    case _:
                        pass
                heard.changed.notify_all()

        return hear

    def _relay(self) -> None:
        active: dict[str, list[int | None]] = {}
        reached: dict[str, list[int | None]] = {}
        for status in self._said.status.values():
            for each in status.sources:
                active.setdefault(each.source, []).append(each.active_height)
                reached.setdefault(each.source, []).append(each.reached)
        if len(self._said.status) == len(self.slots):
            self._tell(RelayHeights(relayed_heights(active, reached)))

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        heard = self._said
        with heard.changed:
            so = heard.changed.wait_for(lambda: bool(heard.failed) or is_so(), WAIT_SECONDS)
            if heard.failed:
                # the others lose this one as a peer: which of them speaks first is chance, and the cause is what counts
                heard.changed.wait_for(lambda: len(heard.failed) == len(self.slots), FAILED_WAIT_S)
                failures = [each.failure for each in heard.failed]
                told = [f"{each.node}[{each.subtask}]: {each.message}\n{each.trace}" for each in failures]
                raise SlotFailedError("\n".join(told))
            assert so, what

    # ---- what slots are told -----------------------------------------------------------------------------------------

    def _tell(self, command: ToSlot) -> None:
        for slot in self.slots:
            slot.obey(command)

    def _assign(self, source: SourceSpec, restored: Snapshot | None) -> None:
        context = source_context(source, self.plan.pipeline, self.plan.batch_rows_max)
        enumerator = source.config.open_enumerator(context)
        known = {} if restored is None else {(s.topic, s.partition): s for s in restored.splits[source.node]}
        for split in enumerator.discover():
            known.setdefault((split.id.topic, split.id.partition), SplitDocument.of(split))
        final = enumerator.discovery_interval_ms is None or source.config.bounded
        enumerator.close()
        self._splits[source.node] = tuple(known.values())
        before = None if restored is None else restored.sources[source.node]
        states = {} if before is None else {(s.topic, s.partition): s for s in before.splits}
        count = self.plan.task(source.node).parallelism
        mine: list[list[AssignedSplitDocument]] = [[] for _ in range(count)]
        for place, split_document in sorted(known.items()):
            mine[subtask_of(*place, count)].append(assigned(split_document, states.get(place)))
        emitted = None if before is None else before.emitted
        for slot, own in zip(self.slots, mine, strict=False):
            slot.obey(AssignSplits(source.node, ASSIGNED_SPLITS.dump_json(tuple(own)), final, emitted))

    def limit(self, source: str, ts: int | None) -> None:
        """Partitions of the source whose time is past `ts` pause."""
        self._tell(LimitTime({source: ts}))

    def trigger(self, *, savepoint: str = "", stop: bool = False, drain: bool = False) -> int:
        """Begins the next epoch."""
        epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
        self._tell(TriggerEpoch(epoch, savepoint, stop, drain))
        return epoch

    def wait_acked(self, epoch: int, savepoint: str = "") -> Snapshot:
        """Waits until every slot has acknowledged the epoch."""
        self._wait(lambda: len(self._said.acked.get(epoch, {})) == len(self.slots), f"epoch {epoch} was not acked")
        documents = [
            document
            for acked in self._said.acked[epoch].values()
            for document in SUBTASK_DOCUMENTS.validate_json(acked.subtasks)
        ]
        documents.sort(key=lambda each: (each.task, each.subtask))
        subtasks = [(task.name, number) for task in self.plan.tasks for number in range(task.parallelism)]
        assert [(each.task, each.subtask) for each in documents] == sorted(subtasks)
        return Snapshot(
            epoch,
            tuple(handle for each in documents for handle in each.states),
            tuple(based(handle, savepoint) for each in documents for handle in each.savepoint),
            merged_sources(documents),
            dict(self._splits),
            self.plan.max_parallelism,
        )

    def epoch(self, *, savepoint: str = "", stop: bool = False, drain: bool = False) -> Snapshot:
        """One epoch from its trigger to its completion."""
        number = self.trigger(savepoint=savepoint, stop=stop, drain=drain)
        snapshot = self.wait_acked(number, savepoint)
        self._tell(EpochCompleted(number))
        return snapshot

    def wait_declined(self, epoch: int) -> Declined:
        """Waits until a slot declines the epoch, and gives it up everywhere."""
        self._wait(lambda: epoch in self._said.declined, f"epoch {epoch} was not declined")
        self._tell(EpochAborted(epoch))
        return self._said.declined[epoch]

    def wait_failed(self) -> Failed:
        """Waits until a slot says that it failed."""
        with self._said.changed:
            assert self._said.changed.wait_for(lambda: bool(self._said.failed), WAIT_SECONDS), "no slot failed"
        return self._said.failed[0]

    def counters(self) -> defaultdict[str, Counter[str]]:
        """Node -> counters over all slots, as of the newest reports."""
        total: defaultdict[str, Counter[str]] = defaultdict(Counter)
        with self._said.changed:
            for status in self._said.status.values():
                for node, own in status.counters.items():
                    total[node].update(own)
        return total

    def statuses(self) -> list[SlotStatus]:
        """The newest report of each slot."""
        with self._said.changed:
            return [status for _, status in sorted(self._said.status.items())]

    def wait_input_ended(self) -> None:
        """Waits until no slot has input left."""
        self._wait(lambda: len(self._said.ended) == len(self.slots), "the input did not end")

    def run_to_the_end(self) -> Snapshot:
        """Waits for the end of input, takes the last epoch, and lets the slots leave."""
        self.wait_input_ended()
        snapshot = self.epoch()
        self.finish()
        return snapshot

    def finish(self) -> None:
        """All is committed: the slots leave."""
        self._tell(FinishSlot())
        self._wait_left(clean=True)

    def cancel(self) -> None:
        """The slots leave at once."""
        self._tell(CancelSlot())
        self._wait_left(clean=True)

    def _wait_left(self, *, clean: bool) -> None:
        for slot in self.slots:
            assert slot.left.wait(WAIT_SECONDS), "a slot did not leave"
            assert slot.clean or not clean, "a slot did not leave cleanly"

    def close(self) -> None:
        """Ends what is left."""
        for slot in self.slots:
            slot.close()
        self._wait_left(clean=False)


@contextmanager
def deployed(attempt: Attempt) -> Iterator[Attempt]:
    """The attempt, ended with the block."""
    try:
        yield attempt
    finally:
        attempt.close()


def sources_of(plan: PhysicalPlan) -> list[SourceSpec]:
    """The sources of a plan."""
    return [node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]


def assigned(split: SplitDocument, state: SplitState | None) -> AssignedSplitDocument:
    """A split with what a checkpoint knows of it: it is read from there."""
    start = split.start if state is None else state.position
    return AssignedSplitDocument(split=split.model_copy(update={"start": start}), state=state)


def merged_sources(documents: list[SubtaskDocument]) -> dict[str, SourceState]:
    """Source -> what all of its subtasks know."""
    names = {name for each in documents for name in each.sources}
    return {name: merged([each.sources[name] for each in documents if name in each.sources]) for name in sorted(names)}


def hashed_anew(handle: StateHandle, max_parallelism: int) -> StateHandle:
    """The handle as a coordinator has it for another number of key groups."""
    spans = {"first_group": 0, "last_group": max_parallelism - 1}
    return handle.model_copy(update=spans) if is_hashed(handle) else handle


def based(handle: StateHandle, folder: str) -> StateHandle:
    """The handle with absolute paths."""
    files = tuple(part.model_copy(update={"path": joined(folder, part.path)}) for part in handle.files)
    return handle.model_copy(update={"files": files})
