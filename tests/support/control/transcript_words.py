"""Effects, records and times as transcripts print them: one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from headrace.checkpoint.journal.records import (
    AttemptRecord,
    CheckpointRecord,
    CommittedRecord,
    FinishedRecord,
    Record,
    StoppingRecord,
)
from headrace.checkpoint.manifest import CommittableDocument, Manifest, OutputTotal
from headrace.coordinator.job import effects as do
from headrace.rpc.deployment import ASSIGNED_SPLITS
from headrace.rpc.messages import (
    AssignSplits,
    CancelSlot,
    Deploy,
    EpochAborted,
    EpochCompleted,
    FinishSlot,
    LimitTime,
    RelayHeights,
    ToSlot,
    TriggerEpoch,
)


def span(ms: int) -> str:
    """A time's length for people."""
    return f"{ms / 1000:g} s"


def effect_words(effect: do.Effect) -> str:  # noqa: PLR0911, PLR0912 - one line an effect
    """An effect as a line."""
    match effect:
        case do.ReadJournal():
            return "read the journal"
        case do.WriteAttempt():
            origin = "nothing" if effect.restored_epoch is None else f"epoch {effect.restored_epoch}"
            told = f"{_named(effect.transactions)}{_totals(effect.output)}"
            return f"write: attempt {effect.attempt} from {origin}, parallelism {effect.parallelism}{told}"
        case do.WriteCheckpoint():
            told = f"{_named(effect.manifest.transactions)}{_totals(effect.manifest.output)}"
            epoch = f"checkpoint {effect.manifest.epoch}{_marks(effect.manifest)}"
            took = f" after {effect.took_ms} ms" if effect.took_ms else ""
            return f"write: {epoch}{took}{_into(effect.savepoint)}{told}"
        case do.WriteCommitted(_, epoch):
            return f"write: committed {epoch}"
        case do.WriteStopping():
            return f"write: stopping{_into(effect.savepoint)}{', drained' if effect.drain else ''}"
        case do.WriteFinished():
            error = f": {effect.error}" if effect.error else ""
            return f"write: finished as {effect.state.value}{_into(effect.savepoint)}{error}"
        case do.RequestSlots(attempt, count):
            return f"ask for {count} slots for attempt {attempt}"
        case do.ReleaseSlots():
            return "release the slots"
        case do.OpenHost(known):
            listed = ", ".join(f"{source}:{len(splits)}" for source, splits in known.items())
            return f"open the connector host, knowing {listed or 'nothing'}"
        case do.CloseHost():
            return "close the connector host"
        case do.Discover(source):
            return f"look for new splits of {source}"
        case do.DeploySlots(attempt, parallelism, restore, own, _):
            origin = "nothing" if restore is None else f"{'' if own else 'foreign '}epoch {restore.epoch}"
            return f"deploy attempt {attempt} to {parallelism} slots from {origin}"
        case do.Send(index, told):
            return f"tell {index}: {told_words(told)}"
        case do.SendAll(told):
            return f"tell all: {told_words(told)}"
        case do.Commit(epoch, committables):
            return f"commit epoch {epoch}: {_committables(committables)}"
        case do.Describe(epoch, committables):
            return f"describe epoch {epoch}: {_committables(committables)}"
        case do.Fence(attempt, names):
            return f"fence for attempt {attempt}: {', '.join(name for own in names.values() for name in own)}"
        case do.Sweep(attempt):
            return f"sweep, but for attempt {attempt}"
        case do.Alarm(text):
            return f"alarm: {text}" if text else "no alarm any more"
        case do.WriteSavepoint(manifest, folder):
            return f"write the manifest of savepoint {folder}, epoch {manifest.epoch}"
        case do.Prune(retained):
            return f"prune to {retained}"
        case do.Answer(request, path, failure, note):
            said = f"failed: {failure.message}" if failure is not None else f"done: {path}"
            return f"answer {request}: {said}{'' if note is None else ': ' + note}"
        case do.RecordException(attempt, failure, follows):
            return f"history: attempt {attempt}: {failure.message}; {follows}"
        case do.Entered(state):
            return f"-> {state.value}"
        case do.Ended(state, savepoint, failure):
            return f"over: {state.value}{_into(savepoint)}{'' if failure is None else ': ' + failure.message}"
        case _:
            assert_never(effect)


def told_words(told: ToSlot) -> str:
    """A message to a slot as a few words."""
    match told:
        case AssignSplits(source, splits, final):
            shown = ", ".join(
                f"{each.split.topic}[{each.split.partition}]" for each in ASSIGNED_SPLITS.validate_json(splits)
            )
            return f"read {source}: {shown or 'nothing'}{', which is all' if final else ''}"
        case TriggerEpoch(epoch, savepoint, stop, drain):
            after = f"{', then stop' if stop else ''}{', drained' if drain else ''}"
            return f"epoch {epoch}{_into(savepoint or None)}{after}"
        case EpochCompleted(epoch, renamed):
            names = "".join(f", {each.successor} in place of {each.name}" for each in renamed)
            return f"epoch {epoch} is complete{names}"
        case EpochAborted(epoch):
            return f"epoch {epoch} is given up"
        case FinishSlot():
            return "finish"
        case CancelSlot():
            return "cancel"
        case RelayHeights(heights):
            return f"heights {heights}"
        case LimitTime(limits):
            return f"limits {limits}"
        case Deploy():
            return "deploy"
        case _:
            assert_never(told)


def record_words(record: Record) -> str:
    """A journal record as a line."""
    match record:
        case AttemptRecord():
            origin = "nothing" if record.restored_epoch is None else f"epoch {record.restored_epoch}"
            about = f"attempt {record.attempt} from {origin}{_named(record.transactions)}"
        case CheckpointRecord():
            about = f"checkpoint {record.manifest.epoch}{_marks(record.manifest)}{_into(record.savepoint)}"
        case CommittedRecord():
            about = f"committed {record.epoch}"
        case StoppingRecord():
            about = f"stopping{_into(record.savepoint)}{', drained' if record.drain else ''}"
        case FinishedRecord():
            error = f": {record.error}" if record.error else ""
            about = f"finished as {record.state}{_into(record.savepoint)}{error}"
        case _:
            assert_never(record)
    return f"{record.number} {record.writer} {about}"


def _into(folder: str | None) -> str:
    return f" into {folder}" if folder else ""


def _marks(manifest: Manifest) -> str:
    return (" (drained)" if manifest.drained else "") + (" (final)" if manifest.final else "")


def _committables(items: Sequence[CommittableDocument]) -> str:
    names = [item.name for item in items if item.name]
    return f"{len(items)} committables{': ' if names else ''}{', '.join(names)}"


def _named(transactions: Mapping[str, tuple[str, ...]]) -> str:
    names = [name for own in transactions.values() for name in own]
    return f", names {', '.join(names)}" if names else ""


def _totals(output: Mapping[str, OutputTotal]) -> str:
    """Rows, their digest as a number, and which opening of the connector host said where output begins."""
    return "".join(
        f", {sink} has {total.rows} rows (digest {int(total.digest or '0', 16)}) since opening {total.begin['opening']}"
        for sink, total in output.items()
    )
