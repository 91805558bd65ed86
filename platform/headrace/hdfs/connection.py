"""Requests to one file system, each repeated until the active NameNode and a DataNode have served it, within bounds.

    metadata:  NameNode ─> answer
    content:   NameNode ─> 307 with a DataNode's URL ─> DataNode ─> answer

A NameNode that does not answer, or is a standby, is replaced by the next one. A DataNode that does not answer is
excluded from the next try. Connections to NameNodes are kept; DataNodes close theirs. Wraps httpx.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import random
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote
from xml.etree import ElementTree

import httpx

from headrace.core.errors import InternalError, UserError
from headrace.core.retry import Backoff, Retries
from headrace.hdfs.addresses import locate
from headrace.hdfs.login import Login, login_from_environment
from headrace.hdfs.refusals import HdfsError, Kind, refusal

_BACKOFF = Backoff(first_s=0.1, max_s=2.0, jitter=0.5)
_PATIENCE_S = 15.0
"""How long a request is repeated: longer than a fail-over that ZooKeeper triggers usually lasts."""
_PASSING = (None, Kind.STANDBY, Kind.STARTING, Kind.NO_DATA_NODE)
"""Failures after which a request is repeated; None: no answer."""
_TIMEOUT = httpx.Timeout(20.0, connect=5.0)
_CONTENT_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
"""For DataNodes: they answer a write when all replicas are on disk."""
_CONNECTIONS = httpx.Limits(max_connections=32, max_keepalive_connections=8)
_CONNECTIONS_OPEN_MAX = 16
"""File systems to which one process keeps connections."""
# A DataNode sends "100 Continue" unasked, and holds its answer back until that is acknowledged: 40 ms later by default.
_SOCKET_OPTIONS = [(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)] if hasattr(socket, "TCP_QUICKACK") else []
_CHUNK_BYTES = 1 << 20
_ON_DISK = "CREATE,SYNC_BLOCK"
"""Flags of a new file whose blocks DataNodes write to disk (fsync) before they answer."""
_SCHEME = "name the other address: webhdfs:// for HTTP, swebhdfs:// for HTTPS"
_UNTRUSTED = "trust the authority that signed the certificate: SSL_CERT_FILE names a PEM file with its own"
_UNREACHABLE = "look at the network, and at the NameNodes and DataNodes: this host must reach the HTTP ports of both"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a folder. modified_ms: epoch ms, by the NameNode's clock."""

    name: str
    is_folder: bool
    bytes: int
    modified_ms: int


class HdfsConnection:
    """One file system as one user. Thread-safe. Paths are absolute.

    name_nodes   base URLs of its NameNodes; with several of them only the active one is used
    """

    def __init__(self, name_nodes: tuple[str, ...], login: Login) -> None:
        self._name_nodes = name_nodes
        self._login = login
        self._current = 0
        self._proven: int | None = 0 if len(name_nodes) == 1 else None
        self._lock = threading.Lock()
        secure = any(each.startswith("https:") for each in name_nodes)
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(
                verify=ssl.create_default_context() if secure else False,
                limits=_CONNECTIONS,
                socket_options=_SOCKET_OPTIONS,
            ),
            timeout=_TIMEOUT,
            trust_env=False,
            # a NameNode's cookie holds a login for hours, whatever login a later request has
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def create(self, path: str, data: memoryview) -> None:
        """Writes a file, whole and on disk, and the folders above it. Replaces one of this name. Raises HdfsError."""
        excluded: set[str] = set()

        def attempt() -> None:
            place = self._data_node("PUT", path, "CREATE", excluded, overwrite="true", createflag=_ON_DISK)
            length = {"Content-Length": str(len(data)), "Content-Type": "application/octet-stream"}
            self._exchange(place, excluded, "PUT", content=_chunks(data), headers=length)

        self._repeated(attempt)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """A file's content, or `length` bytes of it from `offset` on. Raises HdfsError."""
        excluded: set[str] = set()
        part = {"offset": str(offset)} if length is None else {"offset": str(offset), "length": str(length)}

        def attempt() -> bytes:
            place = self._data_node("GET", path, "OPEN", excluded, **part)
            return self._exchange(place, excluded, "GET").content

        return self._repeated(attempt)

    def entries(self, folder: str) -> list[Entry]:
        """The entries of a folder; empty if it does not exist, or is a file. Raises HdfsError."""
        try:
            answer = self._repeated(lambda: self._ask("GET", folder, "LISTSTATUS"))
        except HdfsError as error:
            if error.kind is Kind.MISSING:
                return []
            raise
        listed = _document(answer)["FileStatuses"]["FileStatus"]
        if not isinstance(listed, list):
            raise InternalError(f"a listing is no list: {listed}")
        # the listing of a file has one entry without a name
        return [_entry(each) for each in listed if each["pathSuffix"]]

    def status(self, path: str) -> Entry:
        """A file or folder. Raises HdfsError."""
        answer = self._repeated(lambda: self._ask("GET", path, "GETFILESTATUS"))
        return _entry(_document(answer)["FileStatus"])

    def make_folder(self, path: str) -> None:
        """Creates a folder and those above it, unless they exist. Raises HdfsError."""
        self._repeated(lambda: self._ask("PUT", path, "MKDIRS"))

    def delete(self, path: str) -> None:
        """Deletes a file, if it exists. Raises HdfsError."""
        try:
            self._repeated(lambda: self._ask("DELETE", path, "DELETE", recursive="false"))
        except HdfsError as error:
            if error.kind is not Kind.MISSING:
                raise

    def rename(self, path: str, target: str) -> bool | None:
        """Gives a file another name in an existing folder, if the name is free: the NameNode decides that in one step.

        Returns False if the name is taken. Returns None if it is taken and an answer was lost: an earlier try may have
        taken it. Raises HdfsError.
        """
        tries = 0

        def attempt() -> bool | None:
            nonlocal tries
            tries += 1
            try:
                # without options the NameNode would move the file into a folder that has the target's name
                answer = self._ask("PUT", path, "RENAME", destination=target, renameoptions="NONE")
            except HdfsError as error:
                if error.kind is Kind.EXISTS:
                    return False
                # the file is gone and the target exists: an earlier try succeeded, or another client deleted the file
                if error.kind is Kind.MISSING and tries > 1 and self._exists(target):
                    return None
                raise
            if answer.content:
                # HttpFS ignores the options
                raise HdfsError("the server does not know RENAME with options", remedy="name a NameNode, not a gateway")
            return True

        return self._repeated(attempt)

    def _exists(self, path: str) -> bool:
        try:
            self._ask("GET", path, "GETFILESTATUS")
        except HdfsError as error:
            if error.kind is Kind.MISSING:
                return False
            raise
        return True

    def _repeated(self, attempt: Callable[[], T]) -> T:
        """The attempt's result, repeated while its failure may pass soon."""
        retries = Retries(_BACKOFF, _PATIENCE_S, overruns=False, draw=random.random)
        while True:
            try:
                return attempt()
            except HdfsError as error:
                if error.kind not in _PASSING or not retries.pause():
                    raise

    def _data_node(self, method: str, path: str, operation: str, excluded: set[str], **parameters: str) -> str:
        """The URL at which a DataNode serves the request."""
        if excluded:
            parameters["excludedatanodes"] = ",".join(sorted(excluded))
        try:
            answer = self._ask(method, path, operation, **parameters)
        except HdfsError as error:
            if error.kind is Kind.NO_DATA_NODE:
                # one of those that did not answer may be back with the next try
                excluded.clear()
            raise
        location = answer.headers.get("Location")
        if location is None:
            raise HdfsError("the server named no DataNode", remedy="name a NameNode, not a gateway")
        if httpx.URL(location).scheme != answer.url.scheme:
            # this connection verifies certificates only if its NameNodes have some
            raise HdfsError(f"the NameNode's {answer.url.scheme} address leads to another scheme", remedy=_SCHEME)
        return str(location)

    def _exchange(
        self,
        url: str,
        excluded: set[str],
        method: str,
        *,
        content: Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """A DataNode's answer. One that does not answer is added to `excluded`."""
        at = httpx.URL(url)
        place = f"DataNode {at.host}:{at.port}"
        try:
            answer = self._http.request(method, at, content=content, headers=headers, timeout=_CONTENT_TIMEOUT)
        except httpx.TransportError as error:
            with suppress(OSError):
                # NameNodes know DataNodes by address
                excluded.add(socket.gethostbyname(at.host))
            raise _no_answer(place, error) from error
        return _accepted(answer, place)

    def _ask(self, method: str, path: str, operation: str, **parameters: str) -> httpx.Response:
        """The answer of the current NameNode. If it does not answer, or is a standby, the next one is current."""
        number = self._current
        if self._proven != number:
            # Only an active NameNode accepts an operation that writes, and this one changes nothing. An observer would
            # answer the read that follows from an earlier state.
            self._send(number, "PUT", "/", "MKDIRS")
            self._proven = number
        return self._send(number, method, path, operation, **parameters)

    def _send(self, number: int, method: str, path: str, operation: str, **parameters: str) -> httpx.Response:
        base = self._name_nodes[number]
        query = {"op": operation, **parameters, **self._login.parameters()}
        try:
            answer = self._http.request(method, f"{base}/webhdfs/v1{quote(path)}", params=query)
            return _accepted(answer, f"NameNode {base}")
        except httpx.TransportError as error:
            self._fail_over(number)
            raise _no_answer(f"NameNode {base}", error) from error
        except HdfsError as error:
            if error.kind is Kind.STANDBY:
                self._fail_over(number)
            raise

    def _fail_over(self, number: int) -> None:
        with self._lock:
            # another thread may have moved on already
            if self._current == number and len(self._name_nodes) > 1:
                self._current = (number + 1) % len(self._name_nodes)
                self._proven = None


@lru_cache(maxsize=_CONNECTIONS_OPEN_MAX)
def shared_connection(name_nodes: tuple[str, ...], login: Login) -> HdfsConnection:
    """This process's connection to a file system, made with the first call."""
    # httpx logs the URL of each request, and with it tokens
    logging.getLogger("httpx").setLevel(logging.WARNING)
    opened = HdfsConnection(name_nodes, login)
    atexit.register(opened.close)
    return opened


def _accepted(answer: httpx.Response, place: str) -> httpx.Response:
    if answer.is_success or answer.has_redirect_location:
        return answer
    error = refusal(answer.status_code, answer.content)
    raise HdfsError(f"{place}: {error.message}", kind=error.kind, remedy=error.remedy)


def _no_answer(place: str, error: httpx.TransportError) -> HdfsError:
    reason = str(error) or type(error).__name__
    remedy = _UNTRUSTED if "CERTIFICATE_VERIFY_FAILED" in reason else _UNREACHABLE
    return HdfsError(f"no answer of {place}: {reason}", remedy=remedy)


def _chunks(data: memoryview) -> Iterator[bytes]:
    # in one piece, httpx would copy what is left after each send
    return (bytes(data[start : start + _CHUNK_BYTES]) for start in range(0, len(data), _CHUNK_BYTES))


def _document(answer: httpx.Response) -> dict[str, dict[str, object]]:
    try:
        document: dict[str, dict[str, object]] = json.loads(answer.content)
    except ValueError as error:
        raise HdfsError("the server's answer is no JSON", remedy="name a NameNode, not a proxy") from error
    return document


def _entry(status: dict[str, object]) -> Entry:
    size, modified = status["length"], status["modificationTime"]
    if not isinstance(size, int) or not isinstance(modified, int):
        raise InternalError(f"a file status has no numbers: {status}")
    return Entry(str(status["pathSuffix"]), status["type"] == "DIRECTORY", size, modified)


ADDRESSES = "HEADRACE_WEBHDFS"


def open_hdfs(url: str) -> tuple[HdfsConnection, str]:
    """The file system of a URL, and the folder in it: absolute, without a trailing slash. Sends nothing.

    Raises UserError.
    """
    folder = locate(url, hadoop_settings(), os.environ.get(ADDRESSES))
    return shared_connection(folder.name_nodes, login_from_environment()), folder.path


# ---- Hadoop's settings -----------------------------------------------------------------------------------------------
# Hadoop's settings as its own programs find them: core-site.xml and hdfs-site.xml of the configuration folder.
#
# The folder is `$HADOOP_CONF_DIR`, else `$HADOOP_HOME/etc/hadoop`. Not supported are XML includes.

_FILES = ("core-site.xml", "hdfs-site.xml")
_VARIABLE = re.compile(r"\$\{([^{}$\s]+)\}")
_SUBSTITUTIONS_MAX = 20
"""Replacements of variables in one value (Hadoop's `MAX_SUBST`)."""


def hadoop_settings() -> dict[str, str]:
    """The settings of this process's environment; empty without a configuration folder. Raises UserError."""
    folder = os.environ.get("HADOOP_CONF_DIR")
    if not folder and (home := os.environ.get("HADOOP_HOME")):
        folder = f"{home}/etc/hadoop"
    return read_settings(Path(folder)) if folder else {}


def read_settings(folder: Path) -> dict[str, str]:
    """The settings of a configuration folder, with variables replaced. Raises UserError for a file that is no XML."""
    raw: dict[str, str] = {}
    for path in (folder / name for name in _FILES):
        try:
            root = ElementTree.fromstring(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            raise UserError(
                f"Hadoop's settings in {path} cannot be read: {error}", remedy="correct it, or set HADOOP_CONF_DIR"
            ) from error
        for entry in root.iter("property"):
            if name := (entry.findtext("name") or "").strip():
                raw[name] = (entry.findtext("value") or "").strip()
    return {name: _replaced(value, raw) for name, value in raw.items()}


def _replaced(value: str, settings: Mapping[str, str]) -> str:
    """The value with `${name}` and `${env.NAME}` replaced; variables without a value stay."""
    for _ in range(_SUBSTITUTIONS_MAX):
        replaced = _VARIABLE.sub(lambda match: _variable(match[1], settings) or match[0], value)
        if replaced == value:
            break
        value = replaced
    return value


def _variable(name: str, settings: Mapping[str, str]) -> str | None:
    if name.startswith("env."):
        return os.environ.get(name.removeprefix("env."))
    return settings.get(name)
