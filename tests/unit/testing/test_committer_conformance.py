"""The suite for sinks that commit passes a sink that does all it should, and fails one with any flaw."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from headrace.connect.checkpoint_terms import refused_terms
from headrace.connect.sink import Committable, OpenTransaction, SinkBatch, SinkConfig, SinkContext
from headrace.testing import committer_conformance
from headrace.testing.committer_conformance import CommitterConformance
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkUnderTest

FLAWS = (
    "",
    "visible at the barrier",
    "visible when described",
    "visible twice",
    "undone by close",
    "commit forgets with the committer",
    "rows after the barrier come early",
    "declined epochs are forgotten",
    "committed epochs are given again",
    "empty epochs are given",
    "fence does nothing",
    "fence ends all",
    "fence ends what is visible",
    "sweep does nothing",
    "sweep ends the running attempt",
    "sweep ends other sinks",
    "lost output is not told of",
    "nothing is said to be open",
    "published output stays open",
    "open output is not known again",
    "names are shared by attempts",
    "any checkpoints will do",
    "rows are not counted",
    "a key's order is turned round",
)


@dataclass
class Outside:
    """What a database would be: parts that are staged, and rows that are visible."""

    staged: dict[str, tuple[str, Rows]] = field(default_factory=dict)
    visible: Rows = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    parts: int = 0

    def seen(self) -> Rows:
        return list(self.visible)


OUTSIDES: dict[str, Outside] = {}


class FlawedConfig(SinkConfig):
    takes: ClassVar[Literal["messages", "rows"]] = "rows"

    outside: str
    flaw: str = ""

    @property
    def exactly_once(self) -> bool:
        return True

    def transactions(self, context: SinkContext) -> tuple[str, ...]:
        return (name_of(self, context),)

    def check(self, context: SinkContext) -> list[str]:
        return [] if self.flaw == "any checkpoints will do" else refused_terms(context.checkpoint)

    def open_writer(self, context: SinkContext) -> FlawedWriter:
        return FlawedWriter(self, context)

    def open_committer(self, context: SinkContext) -> FlawedCommitter:
        return FlawedCommitter(self, context)


def name_of(config: FlawedConfig, context: SinkContext) -> str:
    attempt = 0 if config.flaw == "names are shared by attempts" else context.attempt
    return f"{context.job}/{context.node}/{attempt}/{context.subtask}"


class FlawedWriter:
    def __init__(self, config: FlawedConfig, context: SinkContext) -> None:
        self.flaw, self.context, self.name = config.flaw, context, name_of(config, context)
        self.outside = OUTSIDES[config.outside]
        self.rows: Rows = []
        self.pending: list[Committable] = []

    def write(self, batch: SinkBatch) -> None:
        rows = batch.rows.select(SCHEMA.names).to_dicts()
        if self.flaw == "rows after the barrier come early" and self.pending:
            self.outside.staged[self.pending[-1].payload["part"]][1].extend(rows)
        else:
            self.rows += rows

    def flush(self, epoch: int) -> Sequence[Committable]:
        if self.flaw == "declined epochs are forgotten":
            self.pending.clear()
        if self.rows or self.flaw == "empty epochs are given":
            self.outside.parts += 1
            part = f"{self.name}#{self.outside.parts}"
            rows = self.rows[::-1] if self.flaw == "a key's order is turned round" else self.rows
            self.outside.staged[part] = (self.name, rows)
            counted = 0 if self.flaw == "rows are not counted" else len(rows)
            self.pending.append(
                Committable(self.context.node, self.context.subtask, epoch, {"part": part}, self.name, counted)
            )
            self.rows = []
        if self.flaw == "visible at the barrier":
            publish(self.outside, self.pending)
        return tuple(self.pending)

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        if self.flaw != "committed epochs are given again":
            self.pending = [each for each in self.pending if each.epoch > epoch]

    def close(self) -> None:
        if self.flaw == "undone by close":
            for each in self.pending:
                self.outside.staged.pop(each.payload["part"], None)


def publish(outside: Outside, committables: Sequence[Committable]) -> list[Committable]:
    """Those that are lost."""
    lost = []
    for each in sorted(committables, key=lambda each: each.epoch):
        part = each.payload["part"]
        if part in outside.staged:
            outside.visible += outside.staged.pop(part)[1]
            outside.done.add(part)
        elif part not in outside.done:
            lost.append(each)
    return lost


class FlawedCommitter:
    def __init__(self, config: FlawedConfig, context: SinkContext) -> None:
        self.flaw, self.context = config.flaw, context
        self.outside = OUTSIDES[config.outside]

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        if self.flaw == "visible when described":
            publish(self.outside, committables)
        return committables

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        if self.flaw == "visible twice":
            again = [each for each in committables if each.payload["part"] in self.outside.done]
            self.outside.visible += self.outside.visible[: sum(each.rows for each in again)]
        before = dict(self.outside.staged)
        lost = publish(self.outside, committables)
        if self.flaw == "published output stays open":
            self.outside.staged = before
        return [] if self.flaw == "lost output is not told of" else lost

    def end(self, names: Sequence[str]) -> Sequence[str]:
        ended = [part for part, (name, _) in self.outside.staged.items() if name in names]
        return sorted({self.outside.staged.pop(part)[0] for part in ended})

    def fence(self, names: Sequence[str]) -> None:
        if self.flaw == "fence ends what is visible":
            self.outside.visible.clear()
        if self.flaw == "fence ends all":
            self.outside.staged.clear()
        if self.flaw != "fence does nothing":
            self.end(names)

    def sweep(self, attempt: int) -> Sequence[str]:
        if self.flaw == "sweep does nothing":
            return []
        sink = "" if self.flaw == "sweep ends other sinks" else f"{self.context.node}/"
        running = -1 if self.flaw == "sweep ends the running attempt" else attempt
        names = {name for name, _ in self.outside.staged.values() if name.startswith(f"{self.context.job}/{sink}")}
        return self.end([name for name in names if int(name.split("/")[2]) != running])

    def open_transactions(self) -> Sequence[OpenTransaction]:
        found = []
        for part, (name, _) in self.outside.staged.items():
            job, sink, attempt, subtask = name.split("/")
            identity = {"part": "?"} if self.flaw == "open output is not known again" else {"part": part}
            if (job, sink) == (self.context.job, self.context.node):
                found.append(
                    OpenTransaction(name, sink, job, int(attempt), int(subtask), "staged", 0, 0, ("here",), identity)
                )
        return [] if self.flaw == "nothing is said to be open" else found

    def close(self) -> None:
        if self.flaw == "commit forgets with the committer":
            self.outside.done.clear()


def failures(flaw: str) -> list[str]:
    """Names of the suite's tests that fail."""
    failed = []
    suite = CommitterConformance()
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        if name.startswith("test_"):
            OUTSIDES[name] = outside = Outside()
            config = FlawedConfig(outside=name, flaw=flaw)
            try:
                test(SinkUnderTest(config, SinkContext("j", "n", 0, 1, SCHEMA), visible=outside.seen))
            except (AssertionError, KeyError):
                failed.append(name)
    OUTSIDES.clear()
    return failed


@pytest.mark.parametrize("flaw", FLAWS)
def test_every_flaw_is_found(flaw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_conformance, "PATIENCE_S", 0.0)
    assert bool(failures(flaw)) == bool(flaw), failures(flaw)
