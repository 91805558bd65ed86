"""Requests to the coordinator from an event loop: blocking clients in threads of their own.

Polls share one client in one thread: a coordinator that does not answer delays polls, never the loop. A request of a
user gets a client of its own, because an upgrade may take a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.client.http import Client

CLOSE_SECONDS = 1.0
ACTIONS_MAX = 4
"""Most requests of users at a time; further ones wait."""
Result = TypeVar("Result")


class ClusterAccess:
    """The cluster that the page shows."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        """connect: makes a client; raises HeadraceError if no cluster is known."""
        self._connect = connect
        self._client: Client | None = None
        self._acting = 0
        self._polls = ThreadPoolExecutor(1, thread_name_prefix="poll")
        self._actions = ThreadPoolExecutor(ACTIONS_MAX, thread_name_prefix="action")

    async def poll(self, look: Callable[[Client], Result]) -> Result:
        """Reads by the shared client. Raises HeadraceError."""
        return await asyncio.get_running_loop().run_in_executor(self._polls, self._with_shared, look)

    async def act(self, action: Callable[[Client], Result]) -> Result:
        """Performs a user's request by a client of its own. Raises HeadraceError."""
        self._acting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._actions, self._with_own, action)
        finally:
            self._acting -= 1

    async def compute(self, work: Callable[[], Result]) -> Result:
        """Runs slow work, such as planning, outside of the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._actions, work)

    async def close(self) -> bool:
        """Ends the threads. Returns whether all have ended: requests that are under way get `CLOSE_SECONDS`."""
        self._actions.shutdown(wait=False, cancel_futures=True)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.get_running_loop().run_in_executor(self._polls, self._close_shared)
        except TimeoutError:
            return False
        finally:
            self._polls.shutdown(wait=False, cancel_futures=True)
        return not self._acting

    def _with_shared(self, look: Callable[[Client], Result]) -> Result:
        if self._client is None:
            self._client = self._connect()
        return look(self._client)

    def _close_shared(self) -> None:
        if self._client is not None:
            self._client.close()

    def _with_own(self, action: Callable[[Client], Result]) -> Result:
        with self._connect() as client:
            return action(client)
