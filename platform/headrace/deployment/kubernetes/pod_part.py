"""The part that a pod has in the cluster that an attendant attends: a coordinator, in the container beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.client.discovery import COORDINATOR_VARIABLE
from headrace.client.http import Client
from headrace.client.submission import APPLICATION_VARIABLE
from headrace.client.token_files import TOKEN_FILE_VARIABLE, required_token
from headrace.deployment.kubernetes.own_objects import OwnObjects
from headrace.kubernetes.connection import open_connection
from headrace.kubernetes.ownership import Claim
from headrace.leadership.kubernetes_election import LeaseAddress
from headrace.leadership.opening import open_locator
from headrace.tls.files import named_authority

ANSWER_SECONDS = 5.0
"""Patience with the coordinator of the same pod."""


@dataclass(frozen=True, slots=True)
class PodPart:
    """By the contract `job_cluster.attendant.Part`.

    election         URL by which the leader is found
    coordinator_url  of the coordinator in this pod
    token_file       of the cluster
    deployment       the cluster's: its deletion ends the cluster; None: this part has no account of Kubernetes, and
                     reaches the leader by its own coordinator
    """

    election: str
    coordinator_url: str
    token_file: Path
    deployment: str | None

    @property
    def has_others(self) -> bool:
        """Another pod replaces this one."""
        return True

    def keep_alive(self) -> None:
        """The kubelet restarts the coordinator."""

    def coordinator(self) -> Client:
        """Opens a client of the coordinator in this pod."""
        token, authority = required_token(self.token_file), named_authority(os.environ)
        return Client(self.coordinator_url, token, authority=authority, answer_s=ANSWER_SECONDS)

    def leader(self) -> Client:
        """Opens a client of the coordinator that leads."""
        if self.deployment is None:
            # a standby forwards what it is asked
            return self.coordinator()
        token, authority = required_token(self.token_file), named_authority(os.environ)
        return Client("", token, authority=authority, locator=open_locator(self.election, os.environ))

    def environment(self) -> Mapping[str, str]:
        """Returns the environment of the program, which finds its jobs when it is started again."""
        cluster = self.election if self.deployment is not None else self.coordinator_url
        own = {COORDINATOR_VARIABLE: cluster, APPLICATION_VARIABLE: str(os.getpid())}
        return {**os.environ, **own, TOKEN_FILE_VARIABLE: str(self.token_file)}

    def stop(self, *, is_done: bool) -> None:
        """Deletes the cluster if its work is done. Raises ExternalError."""
        if not is_done or self.deployment is None:
            return
        connection = open_connection(os.environ)
        try:
            namespace = LeaseAddress.parsed(self.election).namespace or connection.namespace
            # False: the attendant of another pod was faster
            claim = Claim(self.deployment, controller=None)
            OwnObjects(connection, namespace, claim).delete("Deployment", self.deployment)
        finally:
            connection.close()
