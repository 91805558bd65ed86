"""A job's enumerators and committers: what opens, what is closed, and what a look that hangs holds up."""

from __future__ import annotations

import threading

import pytest

from headrace.core.errors import ExternalError, InternalError, UserError
from headrace.execution.connectors import JobConnectors
from headrace.local.engine.compile import compile_pipeline
from headrace.plan.physical import PhysicalPlan
from headrace.spec.reading.read import pipeline_from_dict
from support.control.scripted import SCHEMA, Output, Script, ScriptedSink, ScriptedSource
from support.processes.running import WAIT_SECONDS


def plan(*scripts: Script) -> PhysicalPlan:
    """Sources s0, s1, .. into one sink."""
    names = [f"s{number}" for number in range(len(scripts))]
    read = {"memory": {"name": "unused"}, "schema": SCHEMA, "time": {"column": "ts"}}
    flow = pipeline_from_dict(
        {
            "name": "p",
            "sources": dict.fromkeys(names, read),
            "steps": {"u": {"union": names}},
            "sinks": {"out": {"from": "u", "print": {}}},
        }
    )
    sources = {
        name: flow.sources[name].model_copy(update={"connector": "scripted", "config": ScriptedSource(script=script)})
        for name, script in zip(names, scripts, strict=True)
    }
    sink = {"connector": "scripted", "config": ScriptedSink(output=Output())}
    sinks = {"out": flow.sinks["out"].model_copy(update=sink)}
    return compile_pipeline(flow.model_copy(update={"sources": sources, "sinks": sinks})).physical


class Held(Script):
    """A script that can be looked at when `door` is open."""

    def __init__(self) -> None:
        super().__init__([[], []], known=2)
        self.door, self.looking = threading.Event(), threading.Event()
        self.door.set()

    @property
    def known(self) -> int:
        self.looking.set()
        self.door.wait(2 * WAIT_SECONDS)
        return 2

    @known.setter
    def known(self, _count: int) -> None: ...


def test_opening_gives_the_splits_of_every_source_and_closing_closes_them() -> None:
    one, two = Script([[]], known=1), Script([[], []], known=2)
    connectors = JobConnectors()
    opened = connectors.open(plan(one, two), "job")
    assert {source: len(found.splits) for source, found in opened.items()} == {"s0": 1, "s1": 2}
    assert connectors.close_all() == []
    assert connectors.close_all() == []
    assert (one.closed, two.closed) == (1, 1)


class Refusing(Script):
    """A script whose splits cannot be found, by the user's mistake."""

    def __init__(self, mistake: str) -> None:
        super().__init__([[]], known=1)
        self._mistake = mistake

    @property
    def known(self) -> int:
        raise UserError(self._mistake, remedy="make it")

    @known.setter
    def known(self, _count: int) -> None: ...


def test_what_is_wrong_with_several_sources_is_raised_together() -> None:
    sound, connectors = Script([[]], known=1), JobConnectors()
    flow = plan(Refusing("no topic a"), sound, Refusing("no topic b"), Refusing("no topic a"))
    with pytest.raises(UserError) as raised:
        connectors.open(flow, "job")
    assert str(raised.value) == "2 problems:\nno topic a\n  make it\nno topic b\n  make it"
    assert sound.closed == 1
    with pytest.raises(UserError) as raised:
        connectors.open(plan(Refusing("no topic a"), sound), "job")
    assert str(raised.value) == "no topic a\n  make it"


def test_a_source_that_is_closed_is_not_asked() -> None:
    connectors = JobConnectors()
    connectors.open(plan(Script([[]], known=1), Script([[]], known=1)), "job")
    connectors.close()
    with pytest.raises(InternalError, match="no source 's0'"):
        connectors.discover("s0")


def test_a_look_that_hangs_is_left_behind_and_the_other_sources_are_closed() -> None:
    held, other, connectors = Held(), Script([[]], known=1), JobConnectors()
    connectors.open(plan(held, other), "job")
    held.door.clear()
    held.looking.clear()
    look = threading.Thread(target=lambda: connectors.discover("s0"))
    look.start()
    assert held.looking.wait(WAIT_SECONDS)
    try:
        (error,) = connectors.close_all(patience_ms=50)
    finally:
        held.door.set()
        look.join(WAIT_SECONDS)
    assert isinstance(error, ExternalError)
    assert "source s0 still looks for new splits: left behind" in str(error)
    assert (held.closed, other.closed) == (0, 1)


def test_a_look_that_comes_while_its_source_is_being_closed_does_not_reach_the_enumerator() -> None:
    held, connectors = Held(), JobConnectors()
    connectors.open(plan(held, Script([[]], known=1)), "job")
    held.door.clear()
    held.looking.clear()
    failures: list[BaseException] = []

    def look() -> None:
        try:
            connectors.discover("s0")
        except InternalError as error:
            failures.append(error)

    first = threading.Thread(target=look)
    first.start()
    assert held.looking.wait(WAIT_SECONDS)
    second, closing = threading.Thread(target=look), threading.Thread(target=connectors.close)
    second.start()
    closing.start()
    held.door.set()
    for thread in (first, second, closing):
        thread.join(WAIT_SECONDS)
    assert held.closed == 1
    assert not any(thread.is_alive() for thread in (first, second, closing))
