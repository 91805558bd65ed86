"""Which coordinators a worker obeys: none of a lower term than one that it has seen. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TermGuard:
    """One worker's view. cluster: the id of the cluster that it saw last; term: the highest one of it."""

    cluster: str = ""
    term: int = 0

    def admits(self, cluster: str, term: int) -> bool:
        """Whether a coordinator may command this worker; notes its term. A cluster that was made anew counts afresh."""
        if cluster == self.cluster and term < self.term:
            return False
        self.cluster, self.term = cluster, term
        return True
