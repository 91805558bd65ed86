"""The JVM of an ApplicationMaster: it speaks ApplicationMasterProtocol with the ResourceManager, and starts containers
at NodeManagers. It keeps nothing that the next JVM would need: response ids and tokens are the caller's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.yarn.conversions import (
    allocation_of,
    end_of,
    items,
    java_container,
    java_credentials,
    java_launch,
    java_size,
    java_token,
    java_tokens,
    size_of,
    token_of,
)
from headrace.yarn.jvm import JvmConfig
from headrace.yarn.master.allocation import AllocateAnswer, AllocateCall
from headrace.yarn.records import Allocation, ContainerSize, Credentials, FinalStatus, Headroom, Launch, Token
from headrace.yarn.refusals import refusals
from headrace.yarn.staging import delete_folder

ANYWHERE = "*"
DECOMMISSIONING = "DECOMMISSIONING"
"""The state of a node that starts no container any more, and is removed once its containers have ended or a time is
over."""
FINISH_CALLS_MAX = 100
"""Calls until the ResourceManager confirms the end; each one waits for the answer."""


@dataclass(frozen=True, slots=True)
class MasterAddress:
    """Where clients reach the application: the control plane's host and port, and the URL of REST."""

    host: str
    port: int
    url: str


@dataclass(frozen=True, slots=True)
class WorkerContainers:
    """Size and place of each requested container. node_label: None: the queue's default."""

    size: ContainerSize
    priority: int
    node_label: str | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """The ResourceManager's answer to a registration. maximum: the largest container that it grants."""

    queue: str
    maximum: ContainerSize
    kept: tuple[Allocation, ...]
    tokens: Mapping[str, Token]


@dataclass(frozen=True, slots=True)
class TokenedAnswer:
    """An answer, and the tokens of nodes that came with it: each comes once."""

    answer: AllocateAnswer
    tokens: Mapping[str, Token]


class MasterLink:
    """One JVM. `call` methods of the protocol belong to one thread; `start` to any. Raises JvmLostError, or as
    `yarn.refusals`."""

    def __init__(self, config: JvmConfig, tokens: Mapping[str, Token]) -> None:
        """tokens: of nodes, from links before this one."""
        self.jvm = config.open()
        try:
            self._connect(tokens)
        except BaseException:
            self.jvm.close()
            raise

    def register(self, address: MasterAddress) -> Registration:
        """Registers the ApplicationMaster."""
        with refusals(self.jvm, "the registration at the ResourceManager"):
            request = self._requests.RegisterApplicationMasterRequest.newInstance(
                address.host, address.port, address.url
            )
            answer = self._protocol.registerApplicationMaster(request)
            kept = tuple(allocation_of(each) for each in items(answer.getContainersFromPreviousAttempts()))
            tokens = self._taken(answer.getNMTokensFromPreviousAttempts())
            maximum = size_of(answer.getMaximumResourceCapability())
            return Registration(str(answer.getQueue()), maximum, kept, tokens)

    def allocate(self, call: AllocateCall, containers: WorkerContainers) -> TokenedAnswer:
        """One call of the protocol: requests, releases, and a sign of life."""
        with refusals(self.jvm, "the request for containers"):
            asks = [self._ask(number, count, containers) for number, count in call.counts]
            releases = [self.jvm.records.ContainerId.fromString(each) for each in call.releases]
            request = self._requests.AllocateRequest.newInstance(call.response_id, 0.0, asks, releases, None)
            answer = self._protocol.allocate(request)
            available = answer.getAvailableResources()
            size = None if available is None else size_of(available)
            given = AllocateAnswer(
                int(answer.getResponseId()),
                tuple(allocation_of(each) for each in items(answer.getAllocatedContainers())),
                tuple(end_of(each) for each in items(answer.getCompletedContainersStatuses())),
                None if size is None else Headroom(size.memory_mb, size.vcores),
                {
                    str(each.getNodeId().toString()): str(each.getNodeState().toString()) == DECOMMISSIONING
                    for each in items(answer.getUpdatedNodes())
                },
            )
            return TokenedAnswer(given, self._taken(answer.getNMTokens()))

    def start(self, allocation: Allocation, launch: Launch, credentials: Credentials) -> None:
        """Starts a container. Returns when its node has accepted it."""
        with refusals(self.jvm, f"the start of {allocation.container} at {allocation.node}"):
            context = java_launch(self.jvm, launch, java_credentials(self.jvm, credentials))
            self._nodes.startContainer(java_container(self.jvm, allocation), context)

    def finish(self, status: FinalStatus, message: str, url: str) -> None:
        """Ends the application."""
        with refusals(self.jvm, "the end of the application"):
            final = getattr(self.jvm.records.FinalApplicationStatus, status.value)
            request = self._requests.FinishApplicationMasterRequest.newInstance(final, message, url)
            for _ in range(FINISH_CALLS_MAX):
                # the ResourceManager answers False until its state store has the end
                if self._protocol.finishApplicationMaster(request).getIsUnregistered():
                    return

    def delete_folder(self, url: str, tokens: bytes = b"") -> None:
        """Deletes the staging folder. tokens: newer ones than those that this JVM was started with."""
        if tokens:
            user = self.jvm.java.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
            with refusals(self.jvm, "newer tokens"):
                user.addCredentials(java_tokens(self.jvm, tokens))
        delete_folder(self.jvm, url)

    def close(self) -> None:
        """Ends the JVM, not the containers."""
        with contextlib.suppress(Exception):
            self._nodes.stop()
        self.jvm.close()

    def _connect(self, tokens: Mapping[str, Token]) -> None:
        jvm = self.jvm
        with refusals(jvm, "the connection to YARN"):
            api = jvm.java.org.apache.hadoop.yarn
            kind = jvm.java_class("org.apache.hadoop.yarn.api.ApplicationMasterProtocol")
            self._requests: Any = api.api.protocolrecords
            self._protocol: Any = api.client.ClientRMProxy.createRMProxy(jvm.conf, kind)
            self._cache: Any = api.client.api.NMTokenCache.getSingleton()
            for node, token in tokens.items():
                self._cache.setToken(node, java_token(jvm, token))
            self._nodes: Any = api.client.api.NMClient.createNMClient()
            self._nodes.init(jvm.conf)
            # a JVM that is replaced must not take its containers with it
            self._nodes.cleanupRunningContainersOnStop(False)  # noqa: FBT003 - Java
            self._nodes.start()

    def _ask(self, number: int, count: int, containers: WorkerContainers) -> Any:
        records = self.jvm.records
        builder = records.ResourceRequest.newBuilder()
        builder.priority(records.Priority.newInstance(containers.priority)).resourceName(ANYWHERE)
        builder.capability(java_size(self.jvm, containers.size)).numContainers(count)
        builder.relaxLocality(True)  # noqa: FBT003 - Java
        builder.allocationRequestId(number)
        if containers.node_label is not None:
            builder.nodeLabelExpression(containers.node_label)
        return builder.build()

    def _taken(self, tokens: Any) -> dict[str, Token]:
        """The tokens of nodes, which this JVM uses from now on."""
        taken: dict[str, Token] = {}
        for each in items(tokens):
            node = str(each.getNodeId().toString())
            self._cache.setToken(node, each.getToken())
            taken[node] = token_of(each.getToken())
        return taken
