"""`headrace operator` as processes of a test, and resources in its namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from headrace.kubernetes.connection import Connection, NotFoundError
from headrace.kubernetes.documents import Collection, documents_at, metadata_of, text_at, value_at
from headrace.kubernetes_operator.resources.kinds import API, KINDS, Kind
from headrace.kubernetes_operator.shell.resource_store import collection_of, identity_of
from support.kubernetes.control.kubernetes import Kubernetes
from support.operator.account import apply_operator, operator_kubeconfig
from support.patience import STANDBY_TIMES, WAIT_SECONDS
from support.processes.running import wait_until

ELECTED = "this operator was elected"
LEASE = "operator"
"""The name of the Lease of all replicas of a namespace."""


class Logged(Protocol):
    """Operators whose logs are shown where a wait fails."""

    def logs(self) -> str:
        """What all of them have logged."""
        ...


class Operators:
    """Replicas of an operator, with the rights of its account. watched: the namespaces that it looks after; empty: all;
    None: its own."""

    def __init__(self, namespace: str, folder: Path, kubeconfig: Path, *, watched: Sequence[str] | None = None) -> None:
        watched = (namespace,) if watched is None else watched
        self._where = [part for each in watched for part in ("-n", each)]
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, times: Mapping[str, str] = STANDBY_TIMES) -> None:
        """Starts a replica. It ends if it loses its lease, and nothing here starts it again, as a Deployment would."""
        lease = f"kubernetes://{self._namespace}/{LEASE}"
        environment = {**os.environ, **times, "KUBECONFIG": str(self._kubeconfig)}
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "headrace", "operator", *self._where, "--lease", lease],
                env={**environment, "HEADRACE_HOME": str(self._folder / "home"), "HOME": str(self._folder)},
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )

    def wait_leader(self) -> str:
        """The name of the replica that was elected and lives; waits for one."""
        wait_until(lambda: bool(self._leading()), f"an operator leads\n{self.logs()}")
        return self._leading()[0]

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._processes[name].kill()
        self._processes[name].wait(WAIT_SECONDS)

    def end(self, name: str) -> int:
        """SIGTERM; gives the exit code."""
        self._processes[name].terminate()
        return self.ended(name)

    def ended(self, name: str) -> int:
        """Waits until it has ended; gives the exit code."""
        return self._processes[name].wait(WAIT_SECONDS)

    def logs(self) -> str:
        """What all of them have logged."""
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in sorted(self._folder.glob("*.operator.log")))

    def close(self) -> None:
        """Ends what still runs."""
        for process in self._processes.values():
            process.kill()
            process.wait(WAIT_SECONDS)

    def _leading(self) -> list[str]:
        living = [name for name, process in self._processes.items() if process.poll() is None]
        return [name for name in living if ELECTED in self._log(name).read_text()]

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.operator.log"


class Resources:
    """The custom resources of a namespace, as a user handles them. operators: shown where a wait fails."""

    def __init__(self, connection: Connection, namespace: str, operators: Logged | None = None) -> None:
        self.connection = connection
        self._operators = operators
        self.namespace = namespace

    def apply(self, kind: Kind, name: str, spec: Mapping[str, object]) -> None:
        """Creates it, or gives it another spec."""
        document = {"apiVersion": API, "kind": kind.name, "metadata": {"name": name}, "spec": dict(spec)}
        self.connection.apply(self._collection(kind), name, document, manager="user")

    def delete(self, kind: Kind, name: str) -> None:
        """Begins its deletion."""
        self.connection.delete(self._collection(kind), name)

    def status(self, kind: Kind, name: str) -> dict[str, Any]:
        """Its status; empty: it has none."""
        status = value_at(self.connection.get(self._collection(kind), name), "status")
        return status if isinstance(status, dict) else {}

    def status_if_there(self, kind: Kind, name: str) -> dict[str, Any]:
        """Its status; empty: there is none of that name."""
        try:
            return self.status(kind, name)
        except NotFoundError:
            return {}

    def wait_status_of_new(self, kind: Kind, name: str, **fields: object) -> dict[str, Any]:
        """Waits until the operator has made it, and as `wait_status`."""
        wait_until(lambda: self.exists(kind, name), f"{kind.name} {name} is made\n{self._logs()}")
        return self.wait_status(kind, name, **fields)

    def condition(self, kind: Kind, name: str, type_: str) -> Mapping[str, str]:
        """One of its conditions; empty: it has none."""
        found = self.status(kind, name).get("conditions", [])
        return next((each for each in found if each["type"] == type_), {})

    def wait_status(self, kind: Kind, name: str, **fields: object) -> dict[str, Any]:
        """Waits until fields of the status have these values; gives it."""

        def is_so() -> bool:
            status = self.status(kind, name)
            return all(status.get(field) == value for field, value in fields.items())

        self.wait(is_so, f"{kind.name} {name} has {fields}", kind, name)
        return self.status(kind, name)

    def wait_condition(self, kind: Kind, name: str, type_: str, reason: str) -> str:
        """Waits until a condition has this reason; gives its message."""
        what = f"{kind.name} {name} is {type_} for {reason}"
        self.wait(lambda: self.condition(kind, name, type_).get("reason") == reason, what, kind, name)
        return self.condition(kind, name, type_).get("message", "")

    def wait_gone(self, kind: Kind, name: str) -> None:
        """Waits until it is deleted."""
        wait_until(lambda: not self.exists(kind, name), f"{kind.name} {name} is gone\n{self._logs()}")

    def exists(self, kind: Kind, name: str) -> bool:
        """Whether there is one of that name."""
        try:
            self.connection.get(self._collection(kind), name)
        except NotFoundError:
            return False
        return True

    def is_kept(self, kind: Kind, name: str) -> bool:
        """Whether it has the operator's finalizer."""
        return identity_of(self.connection.get(self._collection(kind), name)).is_kept

    def names(self, kind: Kind) -> list[str]:
        """The names of all of this kind."""
        return sorted(metadata_of(each).name for each in self.connection.list(self._collection(kind)).items)

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the events about an object."""
        listed = self.connection.list(Collection("v1", "events", self.namespace)).items
        about = [each for each in listed if text_at(each, "involvedObject", "name") == name]
        return [(str(each["type"]), str(each["reason"]), str(each.get("message", ""))) for each in about]

    def wait_event(self, name: str, reason: str, *, warns: bool, says: str = "") -> None:
        """Waits for an event about an object, which follows its status. says: part of its message."""
        sought = ("Warning" if warns else "Normal", reason)

        def is_there() -> bool:
            return any(each[:2] == sought and says in each[2] for each in self.events(name))

        wait_until(is_there, f"an event {reason} about {name}")

    def wait(self, is_so: Any, what: str, kind: Kind, name: str) -> None:
        """Waits; a failure shows the status and what the operators have logged."""
        try:
            wait_until(is_so, what)
        except AssertionError as error:
            seen = self.status(kind, name) if self.exists(kind, name) else "it is gone"
            raise AssertionError(f"{error}\n{seen}\n{self._logs()}") from error

    def _logs(self) -> str:
        return "" if self._operators is None else self._operators.logs()

    def remove_all(self) -> None:
        """Lets every resource go, whatever it waits for, so that the namespace can."""
        for kind in KINDS:
            for name in self.names(kind):
                self.connection.patch(self._collection(kind), name, {"metadata": {"finalizers": []}})

    def _collection(self, kind: Kind) -> Collection:
        return collection_of(kind, self.namespace)


def pod_names(connection: Connection, namespace: str) -> list[str]:
    """Pods of a namespace."""
    return [metadata_of(each).name for each in connection.list(Collection("v1", "pods", namespace)).items]


def owners(connection: Connection, namespace: str, deployment: str) -> list[str]:
    """The kinds that own a Deployment."""
    found = connection.get(Collection("apps/v1", "deployments", namespace), deployment)
    return [str(each["kind"]) for each in documents_at(found, "metadata", "ownerReferences")]


@contextmanager
def operators(kubernetes: Kubernetes, namespace: str, folder: Path) -> Iterator[Operators]:
    """None is started yet; those that run at the end are killed."""
    connection = kubernetes.connection()
    apply_operator(connection, namespace)
    made = Operators(namespace, folder, operator_kubeconfig(kubernetes, namespace, folder))
    try:
        yield made
    finally:
        made.close()
        connection.close()
