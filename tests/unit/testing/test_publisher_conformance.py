"""The suite for sinks that publish shares passes a sink that does all it should, and fails one with any flaw."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from headrace.connect.publisher import Share
from headrace.connect.sink import SinkBatch, SinkConfig, SinkContext, Writer
from headrace.core.errors import ExternalError
from headrace.testing import publisher_conformance
from headrace.testing.publisher_conformance import PublisherConformance
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkUnderTest

FLAWS = (
    "",
    "begins anew each time",
    "forgets finished shares",
    "shuts out nobody",
    "close publishes what waits",
    "finish keeps rows back",
    "epochs are not told apart",
    "earlier epochs are published again",
    "shares are not told apart",
    "sinks are not told apart",
    "attempts are told apart",
    "a key's order is turned round",
    "values are changed",
)
_AT_ONCE = 4


@dataclass
class Outside:
    """What a database would be: share -> (epoch, rows visible, owner), and the rows."""

    marks: dict[tuple[object, ...], tuple[int, int, object]] = field(default_factory=dict)
    visible: Rows = field(default_factory=list)

    def seen(self) -> Rows:
        return list(self.visible)


OUTSIDES: dict[str, Outside] = {}


class FlawedConfig(SinkConfig):
    takes: ClassVar[Literal["messages", "rows"]] = "rows"

    outside: str
    flaw: str = ""

    def open_writer(self, context: SinkContext) -> Writer:
        raise NotImplementedError

    def open_publisher(self, context: SinkContext, share: Share) -> FlawedPublisher:
        return FlawedPublisher(self, context, share)


class FlawedPublisher:
    """Makes rows visible four by four, if it is still the owner of the share."""

    def __init__(self, config: FlawedConfig, context: SinkContext, share: Share) -> None:
        self.flaw, self.outside, self.share = config.flaw, OUTSIDES[config.outside], share
        self.key: tuple[object, ...] = (
            context.job,
            "" if self.flaw == "sinks are not told apart" else context.node,
            0 if self.flaw == "shares are not told apart" else context.subtask,
            context.attempt if self.flaw == "attempts are told apart" else 0,
        )
        self.waiting: Rows = []
        self.published = self._take_over()

    def _take_over(self) -> int:
        epoch, rows, _ = self.outside.marks.get(self.key, (0, 0, None))
        if self.flaw == "begins anew each time":
            rows = 0
        if self.flaw == "forgets finished shares" and rows == self.share.rows:
            rows = 0
        if epoch > self.share.epoch and self.flaw != "earlier epochs are published again":
            return self.share.rows
        if epoch != self.share.epoch and self.flaw != "epochs are not told apart":
            rows = 0
        self.outside.marks[self.key] = (self.share.epoch, rows, self)
        return min(rows, self.share.rows)

    def write(self, batch: SinkBatch) -> None:
        self.waiting += batch.rows.select(SCHEMA.names).to_dicts()
        while len(self.waiting) >= _AT_ONCE:
            self._commit(_AT_ONCE)

    def _commit(self, count: int) -> None:
        _, _, owner = self.outside.marks[self.key]
        if owner is not self and self.flaw != "shuts out nobody":
            raise ExternalError("shut out", retry=True)
        rows, self.waiting = self.waiting[:count], self.waiting[count:]
        if self.flaw == "values are changed":
            rows = [row | {"text": row["text"] or None} for row in rows]
        self.published += len(rows)
        self.outside.marks[self.key] = (self.share.epoch, self.published, owner)
        self.outside.visible[:] = (
            rows + self.outside.visible if self.flaw == "a key's order is turned round" else self.outside.visible + rows
        )

    def finish(self) -> None:
        if self.waiting and self.flaw != "finish keeps rows back":
            self._commit(len(self.waiting))

    def close(self) -> None:
        if self.flaw == "close publishes what waits":
            self.outside.visible += self.waiting
        self.waiting = []


def failures(flaw: str) -> list[str]:
    """Names of the suite's tests that fail."""
    failed = []
    suite = PublisherConformance()
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        if not name.startswith("test_"):
            continue
        arguments = {"written": 7} if "written" in inspect.signature(test).parameters else {}
        OUTSIDES[name] = outside = Outside()
        config = FlawedConfig(outside=name, flaw=flaw)
        try:
            test(SinkUnderTest(config, SinkContext("j", "n", 0, 1, SCHEMA), visible=outside.seen), **arguments)
        except (AssertionError, ExternalError):
            failed.append(name)
    OUTSIDES.clear()
    return failed


@pytest.mark.parametrize("flaw", FLAWS)
def test_every_flaw_is_found(flaw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_conformance, "PATIENCE_S", 0.0)
    assert bool(failures(flaw)) == bool(flaw), failures(flaw)
