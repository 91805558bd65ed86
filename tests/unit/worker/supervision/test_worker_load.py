"""What processes use, measured of real ones."""

from __future__ import annotations

import os
import time

from headrace.worker.supervision.worker_load import LoadMeter


def test_a_process_that_computes_uses_about_the_time_that_it_computes() -> None:
    meter = LoadMeter(0.0)
    assert meter.measure([os.getpid()], 1.0).cpu_millicores == 0
    begun_s = time.process_time()
    while (spent_s := time.process_time() - begun_s) < 0.2:
        pass
    load = meter.measure([os.getpid()], 2.0)
    # ticks of the system are 10 ms
    assert abs(load.cpu_millicores - 1_000 * spent_s) <= 100
    assert load.memory_bytes > 10 << 20


def test_a_process_that_is_gone_counts_nothing() -> None:
    load = LoadMeter(0.0).measure([2**22 + 1], 1.0)
    assert (load.cpu_millicores, load.memory_bytes) == (0, 0)
    assert LoadMeter(1.0).measure([], 1.0).cpu_millicores == 0
