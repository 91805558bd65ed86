"""The states that a step expects, derived from its configuration alone, and whether written state fits them. Pure.

Names of states and columns identify their content (`operators.aggregation.snapshots`), so a check of a changed pipeline
reads no data. A lane is the set of state columns of one kind of aggregate over one argument
(`operators.aggregates.state`).

    shapes = config.states()
    fit("hourly", shapes, {"windows": WrittenState(keys, columns), "time": ..})  -> Fit(verdict, reason, dropped)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headrace.operators.aggregates.state import lane_of
from headrace.operators.aggregation.snapshots import TIME, different_window, windows_in
from headrace.operators.aggregation.window_text import same_window
from headrace.state.snapshot import StateKind


@dataclass(frozen=True, slots=True)
class StateShape:
    """One state of a step.

    keys    columns of the key, in order, with their polars types as text
    lanes   ids of its lanes; empty: the state has none
    window  the window definition as text (`definitions`); only for the state `time`
    per     what a row stands for, as words: ("key", "value"); empty: the state has one row
    dropped    when its rows are dropped; empty: never
    """

    name: str
    kind: StateKind
    keys: tuple[tuple[str, str], ...] = ()
    lanes: frozenset[str] = frozenset()
    window: str | None = None
    per: tuple[str, ...] = ()
    dropped: str = ""

    @property
    def grows(self) -> bool:
        """Whether its rows become more with the data, and nothing drops them."""
        return self.kind is StateKind.KEYED and bool(self.per) and not self.dropped


@dataclass(frozen=True, slots=True)
class WrittenState:
    """One state as all subtasks wrote it: key columns, and all columns with their polars types as text
    (`StateHandle.keys`, `.columns`)."""

    keys: tuple[str, ...]
    columns: Mapping[str, str]


class Compatibility(StrEnum):
    """Whether the state that a step wrote fits what it expects now; the term is that of Flink's serializers.

    RESTORED       all state is restored
    PARTLY         some state is restored; state that the step no longer uses is dropped
    NEW            there was no state
    INCOMPATIBLE   no state can be restored
    """

    RESTORED = "restored"
    PARTLY = "partly"
    NEW = "new"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Fit:
    """How the state that a step wrote fits it now.

    reason   why not all is restored
    dropped  lost state
    added    state that starts empty
    """

    compatibility: Compatibility
    reason: str = ""
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def fit(node: str, shapes: Sequence[StateShape], written: Mapping[str, WrittenState]) -> Fit:
    """Whether the states that `node` wrote fit the states that it expects now. written: name of the state -> it."""
    if not written:
        return Fit(Compatibility.NEW)
    if not shapes:
        return Fit(Compatibility.PARTLY, f"step {node} keeps no state any more", dropped=tuple(sorted(written)))
    if not any(state.columns for name, state in written.items() if name != TIME):
        return Fit(Compatibility.RESTORED)  # without rows and columns there is nothing to misread
    for shape in shapes:
        found = written.get(shape.name)
        if found is not None and (reason := _misfit(node, shape, found)):
            return Fit(Compatibility.INCOMPATIBLE, reason, dropped=tuple(sorted(written)))
    main = shapes[0]
    now = main.lanes | {shape.name for shape in shapes[1:]}
    before = _lanes(written[main.name]) if main.name in written else frozenset[str]()
    before |= written.keys() - {main.name}
    dropped, added = sorted(before - now), sorted(now - before)
    if not dropped:
        return Fit(Compatibility.RESTORED, added=tuple(added))
    return Fit(Compatibility.PARTLY, f"step {node} does not ask for some of it any more", tuple(dropped), tuple(added))


def _misfit(node: str, shape: StateShape, found: WrittenState) -> str:
    if shape.window is not None:
        return next(
            (
                different_window(node, each, shape.window)
                for each in windows_in(found.columns)
                if not same_window(each, shape.window)
            ),
            "",
        )
    names = tuple(name for name, _ in shape.keys)
    if names != found.keys:
        return f"step {node}: its state was kept by {_listed(found.keys)}, and the step has key_by {_listed(names)}"
    for name, dtype in shape.keys:
        before = found.columns.get(name, dtype)
        if before != dtype:
            return f"step {node}: key {name!r} is {dtype}, and its state has {before}"
    return ""


def _lanes(written: WrittenState) -> frozenset[str]:
    return frozenset(lane for name in written.columns if (lane := lane_of(name)) and name.startswith("__"))


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
