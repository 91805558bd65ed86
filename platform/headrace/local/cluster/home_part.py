"""The part that a home's processes have in the cluster that an attendant attends."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.client.discovery import COORDINATOR_VARIABLE
from headrace.client.submission import APPLICATION_VARIABLE
from headrace.core.errors import ExternalError, UnreachableError, UserError
from headrace.local.cluster.commands import environment
from headrace.local.cluster.lifecycle import start, status, stop
from headrace.local.cluster.own_client import coordinator_client, leader_client
from headrace.local.cluster.record import ClusterRecord, read_record

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.core.settings import Home

RESTARTS_MAX = 100
"""Restarts of dead processes before the cluster is given up."""


class HomePart:
    """By the contract `job_cluster.attendant.Part`: a coordinator and workers on this host, restarted when they die."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._restarts = 0

    @property
    def has_others(self) -> bool:
        """Whether other hosts take part: those of an election do."""
        return self._record().election is not None

    def keep_alive(self) -> None:
        """Restarts dead processes."""
        if not status(self._home).dead:
            return
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            raise UnreachableError(f"the cluster in {self._home.root} died {RESTARTS_MAX} times")
        try:
            # the restarted coordinator resumes the job from its journal, or is a standby
            start(self._home)
        except ExternalError as error:
            sys.stderr.write(f"not started again, which is tried once more: {error}\n")

    def coordinator(self) -> Client:
        """Opens a client of the home's coordinator."""
        return coordinator_client(self._home, self._record())

    def leader(self) -> Client:
        """Opens a client of the coordinator that leads."""
        return leader_client(self._home, self._record())

    def environment(self) -> Mapping[str, str]:
        """Returns the environment of the program. With an election it follows the leader, and finds its jobs when it is
        started again.
        """
        election = self._record().election
        own = environment(self._home)
        if election is None:
            return own
        return {**own, COORDINATOR_VARIABLE: election.url, APPLICATION_VARIABLE: str(os.getpid())}

    def stop(self, *, is_done: bool) -> None:
        """Stops the home's processes."""
        stop(self._home)

    def _record(self) -> ClusterRecord:
        """The record of the cluster. Raises UserError if it was stopped meanwhile."""
        record = read_record(self._home)
        if record is None:
            raise UserError(f"the cluster in {self._home.root} was stopped")
        return record
