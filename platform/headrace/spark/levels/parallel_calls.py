"""Concurrent calls that wait for Spark: each in a thread of the driver, because Spark accepts jobs concurrently."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from headrace.spark.levels.progress import Tell

AT_ONCE_MAX = 32
"""Greatest number of threads, however many tasks a cluster runs: each thread waits for one task."""


def side_by_side(call: Callable[[bytes], None], orders: Sequence[bytes], *, at_once: int, tell: Tell | None) -> None:
    """Calls with each of the orders. After an error no call is started, running ones finish, and the first error is
    raised.
    """
    waiting = deque(orders)
    errors: list[Exception] = []
    done: list[None] = []

    def work() -> None:
        while not errors:
            try:
                # popleft is atomic: threads share the queue without a lock
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
