"""Keeps a cluster at the size that its jobs need: asks the resource driver, decides, has workers started and released.

Shell: `coordinator.provisioning` decides. One loop compares again and again what the system lists with what the fleet
needs, at once after a change of the fleet. So an answer that is lost, or a change that nobody reports, is made up for
by the next comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import assert_never

from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.coordinator.provisioning.provisioning import (
    DrainWorker,
    DropWorker,
    Provisioning,
    ProvisioningEffect,
    ProvisioningView,
    ReleaseWorker,
    StartWorker,
)
from headrace.core.errors import HeadraceError
from headrace.resources.driver import ResourceDriver

LOG = logging.getLogger("headrace.coordinator")
LOOK_SECONDS, LOOK_SECONDS_MAX = 1.0, 5.0
"""Pause between two comparisons: while workers start or leave, and otherwise."""
PAUSE_SECONDS_MIN = 0.1
"""Many changes of the fleet at once are compared once."""
CLOSE_SECONDS = 10.0


class Provisioner:
    """The workers of one term. Belongs to the event loop."""

    def __init__(
        self,
        fleet: Fleet,
        driver: ResourceDriver,
        config: ProvisioningConfig,
        *,
        prefix: str,
        require_leading: Callable[[], None],
    ) -> None:
        """prefix: begins the ids of this term's workers. require_leading: blocks; raises HeadraceError if another
        coordinator leads, whose workers these may be."""
        self._fleet = fleet
        self._driver = driver
        self._slots_max = config.slots_max
        self._provisioning = Provisioning(config, prefix)
        self._require_leading = require_leading
        self._unreachable = ""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins."""
        self._fleet.provision_by(self)
        self._task = asyncio.create_task(self._run())

    async def close(self, *, workers: bool) -> None:
        """Ends the comparisons. workers: releases all workers that the system lists."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if workers:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._release_all()
        await asyncio.to_thread(self._driver.close)

    def demand_changed(self) -> None:
        """Compares soon."""
        self._wake.set()

    def view(self) -> ProvisioningView:
        """Returns what is on its way, and what keeps it from coming."""
        return ProvisioningView(
            self._provisioning.expected,
            self._unreachable or self._provisioning.trouble,
            self._slots_max,
            self._provisioning.ended,
        )

    # ---- inside --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            await self._compare()
            await asyncio.sleep(PAUSE_SECONDS_MIN)
            settled = self._provisioning.is_settled and not self._unreachable
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS_MAX if settled else LOOK_SECONDS):
                    await self._wake.wait()

    async def _compare(self) -> None:
        try:
            reports = await asyncio.to_thread(self._driver.workers)
        except HeadraceError as error:
            # nothing is decided on an old list: running jobs need nothing of it
            self._note_unreachable(error.message)
            return
        self._note_unreachable("")
        # no await between the fleet's demand and what is done to the fleet: no slot of an idle worker is granted here
        known = set(self._provisioning.ended)
        effects = self._provisioning.decide(reports, self._fleet.demand(), _now_ms())
        for each in self._provisioning.ended:
            if each not in known:
                LOG.warning("worker %s has ended: %s", each.worker, each.reason)
        for effect in effects:
            self._tell_fleet(effect)
        self._fleet.forget_released(self._provisioning.known)
        await self._perform(effects)

    def _tell_fleet(self, effect: ProvisioningEffect) -> None:
        match effect:
            case DropWorker(worker, reason):
                self._fleet.drop(worker, reason)
            case DrainWorker(worker):
                self._fleet.drain(worker)
            case ReleaseWorker(worker):
                self._fleet.release(worker)
            case StartWorker():
                pass
            case _:
                assert_never(effect)

    async def _perform(self, effects: Sequence[ProvisioningEffect]) -> None:
        starts = [each.worker for each in effects if isinstance(each, StartWorker)]
        releases = [each.worker for each in effects if isinstance(each, ReleaseWorker)]
        if not starts and not releases:
            return
        try:
            # a coordinator that was replaced while it was suspended must not touch the workers of its successor
            await asyncio.to_thread(self._require_leading)
        except HeadraceError as error:
            LOG.warning("no worker is started or released now: %s", error.message)
            for worker in starts:
                self._provisioning.start_failed(worker, error.message, _now_ms())
            return
        await asyncio.gather(*(self._start(each) for each in starts), *(self._release(each) for each in releases))

    async def _start(self, worker: str) -> None:
        LOG.info("worker %s is being started", worker)
        try:
            await asyncio.to_thread(self._driver.start, worker)
        except HeadraceError as error:
            LOG.warning("worker %s cannot be started: %s", worker, error.message)
            self._provisioning.start_failed(worker, error.message, _now_ms())

    async def _release(self, worker: str) -> None:
        LOG.info("worker %s is being released", worker)
        try:
            await asyncio.to_thread(self._driver.release, worker)
        except HeadraceError as error:
            # it is released again while it is listed
            LOG.warning("worker %s cannot be released: %s", worker, error.message)

    async def _release_all(self) -> None:
        try:
            reports = await asyncio.to_thread(self._driver.workers)
        except HeadraceError as error:
            LOG.warning("workers are left behind: %s", error.message)
            return
        await asyncio.gather(*(self._release(each.worker) for each in reports))

    def _note_unreachable(self, message: str) -> None:
        if message != self._unreachable:
            if message:
                LOG.warning("workers can be neither listed nor started: %s", message)
            else:
                LOG.info("workers can be listed again")
            self._unreachable = message


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
