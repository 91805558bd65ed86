"""A worker: it follows the published leader, and obeys by the real guard of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.leadership.candidacy.candidacy import TermGuard
from sim.world import Process

if TYPE_CHECKING:
    from sim.leaders.cluster import Cluster

CLUSTER = "c"
LOOK_MS = 1_000


class Worker(Process):
    """One worker. It receives commands from every coordinator that believes to lead and reaches it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster.world, name)
        self._cluster = cluster
        self.guard = TermGuard()
        self.cut_until_ms = 0
        self.obeyed = 0
        """The highest term of a command that it has obeyed."""

    def command(self, term: int) -> None:
        """A command of a coordinator, which may be late."""
        if self.world.now_ms < self.cut_until_ms:
            return
        self.world.after(self.world.delay_ms(), lambda: self._received(term))

    def _received(self, term: int) -> None:
        if self.guard.admits(CLUSTER, term):
            self._cluster.auditor.obeyed(self, term)
