"""The errors that refusals of a NameNode or DataNode become. Pure.

A server answers a failed request with a document that names a Java exception:
`{"RemoteException": {"exception": "AccessControlException", "javaClassName": .., "message": ..}}`
(Hadoop, "WebHDFS REST API", section "Error Responses"). The status distinguishes few of them: most are 403.
"""

from __future__ import annotations

import json
from enum import Enum, auto

from headrace.core.errors import ExternalError

_TEXT_MAX = 500
"""Characters of a reason that a message quotes."""


class Kind(Enum):
    """The kinds of refusals that callers treat differently."""

    MISSING = auto()
    """The file, or a folder above it, does not exist."""
    EXISTS = auto()
    """The target of a rename exists."""
    STANDBY = auto()
    """This NameNode is not the active one."""
    STARTING = auto()
    """The NameNode is starting or in safe mode: the same request may succeed soon."""
    NO_DATA_NODE = auto()
    """No DataNode serves the request now: those that could are excluded, or have not reported to a new NameNode."""
    UNAUTHORIZED = auto()
    """The NameNode does not accept the credentials."""
    DENIED = auto()
    """The user lacks a permission."""
    QUOTA = auto()
    """A quota of a folder, or the space of all DataNodes, is used up."""
    OTHER = auto()


_KINDS = {
    "FileNotFoundException": Kind.MISSING,
    "ParentNotDirectoryException": Kind.MISSING,
    "FileAlreadyExistsException": Kind.EXISTS,
    "StandbyException": Kind.STANDBY,
    # a NameNode in safe mode, or that has just become the active one
    "RetriableException": Kind.STARTING,
    "SafeModeException": Kind.STARTING,
    "AccessControlException": Kind.DENIED,
    "AuthorizationException": Kind.DENIED,
    "SecurityException": Kind.UNAUTHORIZED,
    "InvalidToken": Kind.UNAUTHORIZED,
    "AuthenticationException": Kind.UNAUTHORIZED,
    "NSQuotaExceededException": Kind.QUOTA,
    "DSQuotaExceededException": Kind.QUOTA,
    "QuotaByStorageTypeExceededException": Kind.QUOTA,
}
_NO_DATA_NODE = ("Failed to find datanode", "nodes contain this block")
"""Of IOExceptions."""
_NO_FOLDER = "(is not a directory)"
"""Of the AccessControlException that some operations raise for a path below a file."""
_REMEDIES = {
    Kind.STANDBY: "none of the NameNodes is the active one: look at `hdfs haadmin -getAllServiceState`",
    Kind.STARTING: "the NameNode leaves safe mode when enough DataNodes have reported their blocks, or by "
    "`hdfs dfsadmin -safemode leave`",
    Kind.NO_DATA_NODE: "look at the DataNodes: `hdfs dfsadmin -report`",
    Kind.UNAUTHORIZED: "look at the delegation token (HEADRACE_HDFS_TOKEN_FILE): it may have expired",
    Kind.DENIED: "give the user (HADOOP_USER_NAME, else the user of this process) write access to that folder",
    Kind.QUOTA: "raise that quota (`hdfs dfsadmin -setQuota`, `-setSpaceQuota`), or delete files there",
    Kind.OTHER: "look at the NameNode's log, and at its DataNodes (`hdfs dfsadmin -report`)",
}


class HdfsError(ExternalError):
    """A NameNode or DataNode refused a request, or none answered. kind: None without an answer."""

    def __init__(self, message: str, *, kind: Kind | None = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy, retry=True)
        self.kind = kind


def refusal(status: int, body: bytes) -> HdfsError:
    """The error of an answer that is not a success."""
    exception, message = _named(body)
    kind = _KINDS.get(exception, Kind.OTHER)
    if not exception and status == 401:
        kind = Kind.UNAUTHORIZED
    if kind is Kind.DENIED and _NO_FOLDER in message:
        kind = Kind.MISSING
    if kind is Kind.OTHER and any(each in message for each in _NO_DATA_NODE):
        kind = Kind.NO_DATA_NODE
    reason = message or f"status {status}"
    # the exception's name explains more than messages such as "/a/b"
    text = f"{exception}: {reason}" if exception else reason
    return HdfsError(text, kind=kind, remedy=_REMEDIES.get(kind))


def _named(body: bytes) -> tuple[str, str]:
    """The exception's name and the first line of its message: a Java stack trace follows it. Empty if the body is no
    such document (a proxy's page)."""
    try:
        about = json.loads(body)["RemoteException"]
        exception, message = str(about["exception"]), str(about["message"])
    except (ValueError, KeyError, TypeError):
        return "", ""
    # safe mode explains itself in three lines; a line that begins with a tab is one of the stack trace
    said = [line for line in message.splitlines() if not line.startswith("\t")]
    return exception, " ".join(said)[:_TEXT_MAX]
