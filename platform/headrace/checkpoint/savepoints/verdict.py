"""Checks a checkpoint's state against another pipeline, node by node, before a job starts. Pure.

    manifest (state written)  ─┐
    physical plan (state needed) ├─ by name, after renames ─> restored | new | partly | dropped | incompatible
    renames old=new              ─┘

Any parallelism fits, because keyed state is redistributed by key group. A node without state fits any state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.core.errors import UserError, did_you_mean
from headrace.operators.state_shape import Compatibility, Fit, WrittenState, fit
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, StepSpec, TaskNode
from headrace.state.snapshot import StateKind

SOURCE = "source"
"""The kind of a source in a manifest's `nodes`. A connector may follow (`source kafka`); then it must be the same."""


class Verdict(StrEnum):
    """The outcome for a node.

    RESTORED       the node continues with all its state, or had none
    NEW            the node did not exist: it starts empty
    PARTLY         the node continues; state that it no longer uses is lost
    DROPPED        the node no longer exists: its state is lost
    INCOMPATIBLE   the node's state does not fit its new configuration
    """

    RESTORED = "restored"
    NEW = "new"
    PARTLY = "partly"
    DROPPED = "dropped"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node, by its name in the new pipeline (dropped: by its old one), with the reason as text."""

    node: str
    verdict: Verdict
    text: str


def is_hashed(handle: StateHandle) -> bool:
    """Whether its rows belong to key groups, so that they depend on max_parallelism."""
    return handle.kind == StateKind.KEYED and bool(handle.keys)


def loses_state(verdicts: Iterable[NodeVerdict]) -> bool:
    """Whether restoring would lose any state."""
    return any(each.verdict in {Verdict.PARTLY, Verdict.DROPPED, Verdict.INCOMPATIBLE} for each in verdicts)


def judge(
    manifest: Manifest, plan: PhysicalPlan, renames: Mapping[str, str], *, rehashes: bool = False
) -> tuple[NodeVerdict, ...]:
    """A verdict on each source and step of the plan, in flow order, then on nodes that no longer exist.

    renames    old node name -> new one
    rehashes   keyed state may have been written with another max_parallelism: it is read whole and hashed anew

    Raises UserError if a renamed node does not exist, or if two nodes would get the same name.
    """
    now = {node.node: node for task in plan.tasks for node in task.nodes}
    _check_renames(manifest, now, renames)
    before = {renames.get(name, name): name for name in manifest.nodes}
    groups = _KeyGroups(manifest.max_parallelism, plan.max_parallelism, rehashes)
    verdicts = [
        _node(manifest, node, before.get(name), groups) for name, node in now.items() if not isinstance(node, SinkSpec)
    ]
    gone = [old for new, old in before.items() if new not in now or isinstance(now[new], SinkSpec)]
    return (*verdicts, *(verdict for old in gone if (verdict := _gone(manifest, old)) is not None))


def _check_renames(manifest: Manifest, now: Mapping[str, TaskNode], renames: Mapping[str, str]) -> None:
    for old, new in renames.items():
        if old not in manifest.nodes:
            raise UserError(
                f"--rename {old}={new}: {manifest.kind} {manifest.epoch} of {manifest.pipeline} has no node {old!r}",
                remedy=did_you_mean(old, tuple(manifest.nodes)) or f"it has {', '.join(manifest.nodes)}",
            )
        if new not in now:
            raise UserError(
                f"--rename {old}={new}: the pipeline has no node {new!r}",
                remedy=did_you_mean(new, tuple(now)) or f"it has {', '.join(now)}",
            )
    targets = [renames.get(name, name) for name in manifest.nodes]
    for new in dict.fromkeys(renames.values()):
        if targets.count(new) > 1:
            olds = " and ".join(name for name in manifest.nodes if renames.get(name, name) == new)
            raise UserError(f"--rename: {olds} would both become {new}", remedy=f"rename the present {new} too")


@dataclass(frozen=True, slots=True)
class _KeyGroups:
    """How many key groups there were and are, and whether state may be hashed anew."""

    before: int
    now: int
    rehashes: bool


def _node(manifest: Manifest, node: TaskNode, old: str | None, groups: _KeyGroups) -> NodeVerdict:
    kind = manifest.nodes.get(old, "") if old is not None else ""
    was_source = kind.partition(" ")[0] == SOURCE
    renamed = f"was {old}; " if old is not None and old != node.node else ""
    if isinstance(node, SourceSpec):
        verdict, text = _source(manifest, node, old, kind)
    elif old is None:
        verdict, text = Verdict.NEW, "was not there: begins with nothing"
    elif was_source and _has_positions(manifest, old):
        verdict, text = Verdict.INCOMPATIBLE, "was a source and is a step now: its positions cannot be used"
    else:
        assert isinstance(node, StepSpec), "sinks keep nothing"
        verdict, text = _step(node, _handles(manifest, old), groups)
    return NodeVerdict(node.node, verdict, renamed + text)


def _source(manifest: Manifest, node: SourceSpec, old: str | None, kind: str) -> tuple[Verdict, str]:
    if old is None:
        return Verdict.NEW, "was not there: reads from its start"
    if kind.partition(" ")[0] != SOURCE:
        if _lost(_handles(manifest, old)):
            return Verdict.INCOMPATIBLE, f"was a {kind} step and is a source now: its state cannot be used"
        return Verdict.NEW, "was no source: reads from its start"
    connector = kind.partition(" ")[2]
    if connector and connector != node.connector:
        return (
            Verdict.INCOMPATIBLE,
            f"read from {connector} and reads from {node.connector} now: positions mean nothing",
        )
    if not _has_positions(manifest, old):
        return Verdict.RESTORED, "had no partition yet"
    splits = manifest.sources[old].splits
    topics = dict.fromkeys(split.topic for split in splits)
    shown = ", ".join(list(topics)[:_SHOWN]) + (", .." if len(topics) > _SHOWN else "")
    return Verdict.RESTORED, f"goes on at the positions of {_count(len(splits), 'partition')} of {shown}"


def _step(node: StepSpec, handles: Sequence[StateHandle], groups: _KeyGroups) -> tuple[Verdict, str]:
    shapes = node.config.states()
    changed = bool(shapes) and groups.before != groups.now and any(is_hashed(handle) for handle in handles)
    if changed and not groups.rehashes:
        return Verdict.INCOMPATIBLE, (
            f"max_parallelism was {groups.before} and is {groups.now}; set max_parallelism: {groups.before}, "
            f"or give --max-parallelism {groups.now}: then all state is read and hashed anew"
        )
    outcome = fit(node.node, shapes, _written(handles))
    rows = sum(handle.rows for handle in handles if handle.kind != StateKind.UNION)
    match outcome.compatibility:
        case Compatibility.NEW:
            return (
                (Verdict.NEW, "had no state: begins with nothing") if shapes else (Verdict.RESTORED, "keeps no state")
            )
        case Compatibility.RESTORED:
            added = f"; begins anew: {_listed(outcome.added)}" if outcome.added else ""
            hashed = f"; all of it is read: max_parallelism was {groups.before} and is {groups.now}" if changed else ""
            return Verdict.RESTORED, f"{_count(rows, 'row')} of state{hashed}{added}"
        case Compatibility.PARTLY if not _lost(handles):
            return Verdict.RESTORED, f"what it kept was empty; {outcome.reason}"
        case Compatibility.PARTLY:
            return Verdict.PARTLY if shapes else Verdict.DROPPED, _partly(outcome)
        case Compatibility.INCOMPATIBLE:
            return Verdict.INCOMPATIBLE, outcome.reason


def _partly(found: Fit) -> str:
    added = f"; begins anew: {_listed(found.added)}" if found.added else ""
    return f"{found.reason}: {_listed(found.dropped)} would be lost{added}"


def _gone(manifest: Manifest, old: str) -> NodeVerdict | None:
    """The verdict on a node without a successor; None: it had no state."""
    handles = _handles(manifest, old)
    if _has_positions(manifest, old):
        splits = len(manifest.sources[old].splits)
        return NodeVerdict(old, Verdict.DROPPED, f"is not there any more: positions of {_count(splits, 'partition')}")
    if _lost(handles):
        rows = sum(handle.rows for handle in handles if handle.kind != StateKind.UNION)
        return NodeVerdict(old, Verdict.DROPPED, f"is not there any more: {_count(rows, 'row')} of state")
    return None


def _handles(manifest: Manifest, node: str) -> list[StateHandle]:
    return [handle for handle in manifest.states if handle.node == node]


def _has_positions(manifest: Manifest, node: str) -> bool:
    return node in manifest.sources and bool(manifest.sources[node].splits)


def _lost(handles: Iterable[StateHandle]) -> bool:
    """Whether there are rows to lose. Rows of UNION states, which contain each subtask's time, do not count."""
    return any(handle.rows for handle in handles if handle.kind != StateKind.UNION)


def _written(handles: Iterable[StateHandle]) -> dict[str, WrittenState]:
    written: dict[str, WrittenState] = {}
    for handle in handles:
        known = written.get(handle.state)
        columns = {**(known.columns if known is not None else {}), **handle.columns}
        written[handle.state] = WrittenState(handle.keys, columns)
    return written


def _lane_text(lane: str) -> str:
    """`v_delay_c44ca023cb6e_max` -> `max of delay`: the readable name of a state or state column. The hash in its name
    distinguishes equal names of different expressions."""
    if found := _LANE.fullmatch(lane):
        return f"{found[2].replace('_', ' ')} of {found[1]}"
    if found := _VALUES.fullmatch(lane):
        return f"{'distinct values' if found[1] == 'distinct' else 'values'} of {found[2]}"
    return lane


_LANE = re.compile(r"v_(.+)_[0-9a-f]{12}_(.+)")
_VALUES = re.compile(r"(distinct|counts)_(.+)_[0-9a-f]{12}")
_SHOWN = 5
"""Most names that a message lists."""


def _listed(lanes: Sequence[str]) -> str:
    names = list(dict.fromkeys(_lane_text(lane) for lane in lanes))
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
