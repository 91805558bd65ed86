"""Java's exceptions as errors of Headrace, in the words of YARN."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError, UnreachableError

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError

    from headrace.yarn.jvm import Jvm

MESSAGE_CHARS_MAX = 600
_CLASS_NAME = re.compile(r"^(?:[a-z][\w]*\.)+[A-Z][\w$]*:\s*")
_AWAY = {"ConnectException", "NoRouteToHostException", "UnknownHostException", "SocketTimeoutException"}
_OVER = {"ApplicationAttemptNotFoundException"}
_CHAIN_MAX = 20
_NO_TICKET = ("GSS initiate failed", "cannot authenticate via", "Unable to obtain password", "No valid credentials")
"""Words of Hadoop and Java for a process that has no ticket of Kerberos."""
_KERBEROS = "kinit gets a ticket; HEADRACE_KERBEROS_PRINCIPAL and HEADRACE_KERBEROS_KEYTAB name a key table"


class RefusedError(ExternalError):
    """YARN rejects a call."""


class ApplicationNotFoundError(RefusedError):
    """YARN knows no such application, or has forgotten it."""


class NotRegisteredError(RefusedError):
    """The ResourceManager was restarted, and does not know the ApplicationMaster: it has to register again."""


class AttemptOverError(RefusedError):
    """The attempt of this ApplicationMaster is over: it must do nothing more."""


@contextlib.contextmanager
def refusals(jvm: Jvm, what: str) -> Iterator[None]:
    """Raises an ExternalError for Java's exceptions inside. what: names the call, as a subject: `the submission`."""
    from py4j.protocol import Py4JJavaError

    try:
        with jvm.calls():
            yield
    except Py4JJavaError as error:
        with jvm.calls():
            raise _error(error, what) from error


def _error(error: Py4JJavaError, what: str) -> ExternalError:
    names, message = _chain(error)
    text = f"{what} failed: {message}"
    if "ApplicationMasterNotRegisteredException" in names:
        return NotRegisteredError(text)
    # an attempt whose secret the ResourceManager has dropped is over, too; only the message shows it
    if _OVER & names or "not found in AMRMTokenSecretManager" in message:
        return AttemptOverError(text)
    if "ApplicationNotFoundException" in names:
        return ApplicationNotFoundError(text)
    if any(words in message for words in _NO_TICKET):
        return RefusedError(text, remedy=_KERBEROS)
    if _AWAY & names:
        return UnreachableError(text, remedy="is the ResourceManager of HADOOP_CONF_DIR running?")
    return RefusedError(text, retry=bool({"StandbyException", "IOException"} & names))


def _chain(error: Py4JJavaError) -> tuple[set[str], str]:
    """The classes of the exception and its causes, and the innermost message that is not empty."""
    names: set[str] = set()
    message, java = "", error.java_exception
    for _ in range(_CHAIN_MAX):
        if java is None:
            break
        names.add(str(java.getClass().getSimpleName()))
        message = str(java.getMessage() or "") or message
        java = java.getCause()
    return names | set(_named(message)), _plain(message) or ", ".join(sorted(names))


def _named(message: str) -> list[str]:
    """Classes that a message names: the innermost Java cause is often a bare RemoteException."""
    return re.findall(r"\b([A-Z]\w*Exception)\b", message)


def _plain(message: str) -> str:
    """The first line of a message, without names of classes before it."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    while (shorter := _CLASS_NAME.sub("", line)) != line:
        line = shorter
    return line if len(line) <= MESSAGE_CHARS_MAX else line[: MESSAGE_CHARS_MAX - 2] + ".."
