"""Records of YARN's Java classes, from and to the values of `yarn.records`."""

from __future__ import annotations

import shlex
from typing import Any

from headrace.yarn.jvm import Jvm
from headrace.yarn.records import (
    Allocation,
    ApplicationReport,
    ContainerEnd,
    ContainerSize,
    Credentials,
    FinalStatus,
    Launch,
    ResourceKind,
    StagedFile,
    Token,
)

AM_TOKEN = "YARN_AM_RM_TOKEN"
"""The kind of the token by which an ApplicationMaster is known. Workers do not get it."""
NO_HOST = "N/A"
_NO_TOKEN = Token(b"", "", b"", "")


def java_size(jvm: Jvm, size: ContainerSize) -> Any:
    """A `Resource`."""
    return jvm.records.Resource.newInstance(size.memory_mb, size.vcores)


def size_of(resource: Any) -> ContainerSize:
    """Of a `Resource`."""
    return ContainerSize(int(resource.getMemorySize()), int(resource.getVirtualCores()))


def java_file(jvm: Jvm, file: StagedFile) -> Any:
    """A `LocalResource`, private to the application."""
    records = jvm.records
    url = records.URL.fromPath(jvm.java.org.apache.hadoop.fs.Path(file.url))
    kind = records.LocalResourceType
    return records.LocalResource.newInstance(
        url,
        kind.ARCHIVE if file.kind is ResourceKind.ARCHIVE else kind.FILE,
        records.LocalResourceVisibility.APPLICATION,
        file.size_bytes,
        file.modified_ms,
    )


def java_launch(jvm: Jvm, launch: Launch, tokens: Any) -> Any:
    """A `ContainerLaunchContext`. `exec`: signals and exit codes are those of the program."""
    # `$NM_HOST` is for the shell of the node
    words = " ".join(word if word.startswith("$") else shlex.quote(word) for word in launch.command)
    line = f"exec {words} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr"
    files = {file.link: java_file(jvm, file) for file in launch.files}
    environment = dict(launch.environment)
    return jvm.records.ContainerLaunchContext.newInstance(files, environment, [line], None, tokens, None)


def java_credentials(jvm: Jvm, credentials: Credentials) -> Any:
    """The credentials of a container: this process's tokens without the ApplicationMaster's, and these."""
    java = jvm.java
    made = java.org.apache.hadoop.security.Credentials()
    own = java.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().getCredentials()
    # a Java collection is no Python iterable
    for token in items(own.getAllTokens()):
        if str(token.getKind().toString()) != AM_TOKEN:
            made.addToken(token.getService(), token)
    if credentials.tokens:
        # an alias that is there already is replaced
        made.addAll(java_tokens(jvm, credentials.tokens))
    for alias, secret in credentials.secrets.items():
        made.addSecretKey(java.org.apache.hadoop.io.Text(alias), secret)
    out = java.org.apache.hadoop.io.DataOutputBuffer()
    made.writeTokenStorageToStream(out)
    return java.java.nio.ByteBuffer.wrap(out.getData(), 0, out.getLength())


def java_tokens(jvm: Jvm, storage: bytes) -> Any:
    """A `Credentials` from a token storage."""
    java = jvm.java
    made = java.org.apache.hadoop.security.Credentials()
    made.readTokenStorageStream(java.java.io.DataInputStream(java.java.io.ByteArrayInputStream(storage)))
    return made


def token_storage(jvm: Jvm, credentials: Any) -> bytes:
    """Inverse of `java_tokens`."""
    out = jvm.java.org.apache.hadoop.io.DataOutputBuffer()
    credentials.writeTokenStorageToStream(out)
    return bytes(out.getData())[: int(out.getLength())]


def token_of(token: Any) -> Token:
    """Of a `Token` record."""
    return Token(
        _bytes(token.getIdentifier()), str(token.getKind()), _bytes(token.getPassword()), str(token.getService())
    )


def java_token(jvm: Jvm, token: Token) -> Any:
    """Inverse of `token_of`."""
    return jvm.records.Token.newInstance(token.identifier, token.kind, token.password, token.service)


def allocation_of(container: Any) -> Allocation:
    """Of a `Container`. One that a restarted ResourceManager has recovered has no token: it runs already."""
    token = container.getContainerToken()
    return Allocation(
        container=str(container.getId().toString()),
        number=int(container.getAllocationRequestId()),
        node=str(container.getNodeId().toString()),
        http_address=str(container.getNodeHttpAddress() or ""),
        size=size_of(container.getResource()),
        priority=int(container.getPriority().getPriority()),
        token=_NO_TOKEN if token is None else token_of(token),
    )


def java_container(jvm: Jvm, allocation: Allocation) -> Any:
    """A `Container` that an NMClient starts."""
    records = jvm.records
    return records.Container.newInstance(
        records.ContainerId.fromString(allocation.container),
        records.NodeId.fromString(allocation.node),
        allocation.http_address,
        java_size(jvm, allocation.size),
        records.Priority.newInstance(allocation.priority),
        java_token(jvm, allocation.token),
    )


def items(collection: Any) -> list[Any]:
    """The elements of a Java collection, or of none. py4j's own iterators take every error for the end: if the JVM died
    meanwhile, the rest of an answer would be lost without a word."""
    if collection is None:
        return []
    array = collection.toArray()
    return [array[index] for index in range(len(array))]


def end_of(status: Any) -> ContainerEnd:
    """Of a `ContainerStatus`."""
    return ContainerEnd(
        str(status.getContainerId().toString()), int(status.getExitStatus()), str(status.getDiagnostics() or "")
    )


def report_of(report: Any) -> ApplicationReport:
    """Of an `ApplicationReport`."""
    host, port = str(report.getHost() or NO_HOST), int(report.getRpcPort())
    attempt = report.getCurrentApplicationAttemptId()
    url = str(report.getOriginalTrackingUrl() or "")
    return ApplicationReport(
        application=str(report.getApplicationId().toString()),
        name=str(report.getName()),
        user=str(report.getUser()),
        queue=str(report.getQueue()),
        tags=tuple(sorted(str(tag) for tag in items(report.getApplicationTags()))),
        state=str(report.getYarnApplicationState().toString()),
        final_status=FinalStatus(_final(str(report.getFinalApplicationStatus().toString()))),
        url="" if url == NO_HOST else url,
        control="" if host == NO_HOST or port <= 0 else f"{host}:{port}",
        attempt=0 if attempt is None else int(attempt.getAttemptId()),
        diagnostics=str(report.getDiagnostics() or "").strip(),
    )


def _final(text: str) -> str:
    # ENDED: of several parts; applications of Headrace have one
    return FinalStatus.SUCCEEDED if text == "ENDED" else text


def _bytes(buffer: Any) -> bytes:
    start = buffer.arrayOffset() + buffer.position()
    return bytes(buffer.array()[start : buffer.arrayOffset() + buffer.limit()])
