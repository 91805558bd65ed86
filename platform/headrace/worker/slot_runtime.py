"""One attempt of one job in a slot process: its subtasks from deployment to the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.rpc.messages import Deploy, FromSlot, ToSlot

if TYPE_CHECKING:
    from headrace.exchange.transport import Listener


class SlotRuntime:
    """Runs the subtasks of a slot for one attempt. `obey` and `close` belong to the slot's control thread.

    left   set once the attempt has been left, for whatever reason: the process may exit (see `clean`)
    clean  it left on command (Finish or Cancel), every thread has ended and everything is closed
    """

    def __init__(self, deploy: Deploy, listener: Listener, say: Callable[[FromSlot], None]) -> None:
        self._deploy = deploy
        self._listener = listener
        self._say = say
        self.left = threading.Event()
        self.clean = False

    def obey(self, command: ToSlot) -> None:
        """Takes a command; never blocks for long. What comes after the end is ignored."""
        raise NotImplementedError

    def close(self) -> None:
        """Cancels what still runs and waits for it (at most the cancel grace). Idempotent."""
        raise NotImplementedError
