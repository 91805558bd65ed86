"""Virtual time, chance, and processes that may be killed and frozen. Everything that happens comes from one seed."""

from __future__ import annotations

import heapq
import random
import sys
from collections import deque
from collections.abc import Callable

Action = Callable[[], None]
EVENTS_MAX = 400_000
"""More than any sound story needs."""


class ViolationError(AssertionError):
    """Something that must never happen has happened."""


class World:
    """The clock and the queue of what is to happen."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.now_ms = 0
        self.chance = random.Random(seed)
        self.calm = False
        """No more faults happen."""
        self._queue: list[tuple[int, int, Action]] = []
        self._count = 0
        self._verbose = verbose
        self.told: deque[str] = deque(maxlen=4_000)

    def after(self, delay_ms: int, action: Action) -> None:
        """Something happens in a while."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + max(delay_ms, 0), self._count, action))

    def again_and_again(self, pause_ms: int, action: Action, over: Callable[[], bool] = lambda: False) -> None:
        """Something happens at random times, `pause_ms` apart on average, until there is peace or it is `over`."""

        def again() -> None:
            if not self.calm and not over():
                action()
                self.after(self._pause_ms(pause_ms), again)

        self.after(self._pause_ms(pause_ms), again)

    def _pause_ms(self, mean_ms: int) -> int:
        return round(self.chance.expovariate(1 / mean_ms))

    def run(self, until_ms: int, done: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass up to then, or until `done`. Whether it was `done`."""
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
            if done():
                return True
            if self._count > EVENTS_MAX:
                raise ViolationError(f"more than {EVENTS_MAX} things happened: something goes round and round")
        self.now_ms = until_ms
        return done()

    def tell(self, text: str) -> None:
        """A line of the story."""
        line = f"{self.now_ms / 1000:10.3f}  {text}"
        self.told.append(line)
        if self._verbose:
            sys.stdout.write(f"{line}\n")

    def happens(self, probability: float) -> bool:
        """Whether a fault happens. Never in calm times."""
        return not self.calm and self.chance.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self.chance.random() * (high - low + 1))

    def delay_ms(self) -> int:
        """How long a message or a disk takes: mostly short, now and then not."""
        if self.happens(0.02):
            return self.between(500, 8_000)
        return self.between(1, 40)


class Process:
    """Something that acts until it is killed, and not while it is frozen."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.frozen = False
        self._waiting: deque[Action] = deque()

    @property
    def awake(self) -> bool:
        """Whether it can act now."""
        return self.alive and not self.frozen

    def deliver(self, action: Action) -> None:
        """It does something: now, when it wakes up, or never."""
        if not self.alive:
            return
        if self.frozen:
            self._waiting.append(action)
            return
        action()

    def after(self, delay_ms: int, action: Action) -> None:
        """It does something in a while."""
        self.world.after(delay_ms, lambda: self.deliver(action))

    def freeze(self) -> None:
        """SIGSTOP."""
        self.frozen = True

    def wake(self) -> None:
        """SIGCONT: what came meanwhile is dealt with first."""
        self.frozen = False
        while self._waiting and self.awake:
            self._waiting.popleft()()

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = False
        self._waiting.clear()


class Line:
    """Messages from one process to another: in order, each once, lost when the line is cut."""

    def __init__(self, world: World, target: Process) -> None:
        self._world = world
        self._target = target
        self._last_ms = 0
        self._open = True
        self.blocked_until_ms = 0

    def send(self, action: Action) -> None:
        """The target does something when the message arrives."""
        arrives_ms = max(self._world.now_ms + self._world.delay_ms(), self._last_ms, self.blocked_until_ms)
        self._last_ms = arrives_ms
        self._world.after(arrives_ms - self._world.now_ms, lambda: self._arrive(action))

    def _arrive(self, action: Action) -> None:
        if self._open:
            self._target.deliver(lambda: self._take(action))

    def _take(self, action: Action) -> None:
        if self._open:
            action()

    def cut(self) -> None:
        """What is under way is lost."""
        self._open = False
