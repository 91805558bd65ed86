"""Processes whose blocking code runs step by step: they may be killed, or stopped, between any two of its calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core.errors import HeadraceError
from sim.drivers.remote import Remote
from sim.drivers.storage import DriversStore
from sim.replayed import Answer, Call, Pending, Replayer
from sim.world import Process, ViolationError

if TYPE_CHECKING:
    from sim.drivers.site import Site

UNFORESEEN = "nobody foresaw it"
Result = TypeVar("Result")


class BlockingProcess(Process):
    """A process of one piece of code after the other."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site.world, name)
        self.site = site
        self.replayer = Replayer()

    def run(self, code: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Runs code that must not raise; `done` takes what it returns."""
        self.replayer.forget()
        self._run(code, done)

    def _run(self, code: Callable[[], Result], done: Callable[[Result], None]) -> None:
        self.replayer.rewind()
        try:
            result = code()
        except Pending as pending:
            pending.start(lambda answer: self._on_answer(answer, code, done))
        except Exception as error:
            raise ViolationError(f"{self.name} has raised, and no event says so") from error
        else:
            done(result)

    def _on_answer(self, answer: object, code: Callable[[], Result], done: Callable[[Result], None]) -> None:
        self.replayer.answered(answer)
        self._run(code, done)


class Reach:
    """What such code reaches: a clock, and stores."""

    def __init__(self, process: BlockingProcess) -> None:
        self._process = process
        self._site = process.site
        self._world = process.world
        self._replayer = process.replayer

    def open_folder(self, url: str) -> DriversStore:
        """A folder of storage."""
        return DriversStore(url, self._site.objects, partial(self.ask, self._site.storage), self._replayer)

    def now_ms(self) -> int:
        """The same whenever the code runs again."""
        return self._replayer.note(lambda: self._world.now_ms)

    def monotonic_ms(self) -> int:
        """As `now_ms`."""
        return self.now_ms()

    def ask(self, remote: Remote, call: Call) -> object:
        """The answer to a call."""
        return self._replayer.ask(lambda answer: self._start(remote, call, answer))

    def _start(self, remote: Remote, call: Call, answer: Answer) -> None:
        """Now and then something raises that nobody foresaw: instead of the call, or behind it."""
        if not self._world.happens(self._site.story.unforeseen):
            remote.call(self._process, call, answer)
        elif self._world.happens(0.5):
            remote.call(self._process, call, lambda _: answer(ValueError(UNFORESEEN)))
        else:
            self._process.after(self._world.delay_ms(), lambda: answer(ValueError(UNFORESEEN)))


def outcome_of(code: Callable[[], object]) -> object:
    """What code returns, or the error that it raises."""
    try:
        return code()
    except (HeadraceError, ValueError) as error:
        return error
