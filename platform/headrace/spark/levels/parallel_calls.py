"""Calls that wait for Spark, several at a time: each in a thread of the driver, as Spark takes jobs side by side."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from headrace.spark.levels.progress import Tell

AT_ONCE_MAX = 32
"""Threads, however many tasks a cluster runs: each of them waits for one task."""


def side_by_side(call: Callable[[bytes], None], orders: Sequence[bytes], *, at_once: int, tell: Tell | None) -> None:
    """Calls with each of the orders. After an error nothing new is begun, what runs comes to its end, and the first
    error is raised."""
    waiting = deque(orders)
    errors: list[Exception] = []
    done: list[None] = []

    def work() -> None:
        while not errors:
            try:
                order = waiting.popleft()
            except IndexError:
                return
            try:
                call(order)
            except Exception as error:
                errors.append(error)
                return
            done.append(None)
            if tell is not None:
                tell(f"publishing: {len(done)}/{len(orders)} shares")

    threads = [
        threading.Thread(target=work, name=f"spark-job-{number}", daemon=True)
        for number in range(min(len(orders), max(at_once, 1), AT_ONCE_MAX))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
