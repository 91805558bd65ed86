"""Tokens and certificates of a cluster on YARN. The ApplicationMaster replaces them before they expire.

    token source, certificates ──> own files, credentials of new containers, and SharedSecrets ──> running workers

The first start creates the cluster's authority, which stays in the client's home:

    client            authority and its key
    coordinator       the same, by YARN's credentials; issues its own certificate, and one for each worker
    worker            the authority, and the certificate for its node

A worker's certificate contains the name of its node, which is known once YARN has granted the container.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.core.errors import HeadraceError
from headrace.core.files.home_files import PRIVATE_FILE, replace_file
from headrace.core.retry import Backoff
from headrace.tls.files import TlsFiles
from headrace.tls.issuing import KeyPair, is_due, issued
from headrace.yarn.container import (
    AUTHORITY,
    AUTHORITY_KEY,
    CERTIFICATE,
    CERTIFICATE_KEY,
    FILE_SECRET,
    TOKEN_LOCATION,
    TOKENS,
)
from headrace.yarn.jvm import JvmConfig, find_hadoop_client, settings_for
from headrace.yarn.kerberos import KeytabLogin, ObtainedTokens, log_in, obtain_tokens
from headrace.yarn.records import Credentials


class ClusterCertificates:
    """Issues certificates in the ApplicationMaster's container. Thread-safe.

    folder  the container's secrets, with the authority and its key
    name    the cluster's name
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._authority = KeyPair((folder / AUTHORITY).read_text(), (folder / AUTHORITY_KEY).read_text())
        self._name = f"{name}.headrace"

    @property
    def files(self) -> TlsFiles:
        """Those of the coordinator, once they are `written`."""
        return tls_files(self._folder)

    def write(self, host: str) -> None:
        """Writes the coordinator's certificate. host: the name of its node."""
        for name, content in self.issue([host]).items():
            replace_file(self._folder / name, content, mode=PRIVATE_FILE)

    def is_due(self, host: str) -> bool:
        """Whether the coordinator's certificate, and with it those of workers, are to be issued anew."""
        return is_due((self._folder / CERTIFICATE).read_text(), [host], datetime.now(UTC))

    def issue(self, hosts: list[str]) -> Mapping[str, bytes]:
        """A new certificate and its key, as secrets by name. hosts: names of nodes on which it is used."""
        pair = issued(self._authority, [self._name, *hosts], datetime.now(UTC))
        # the key first: a reader in between finds two that do not belong together, and reads again
        return {CERTIFICATE_KEY: pair.key.encode(), CERTIFICATE: pair.certificate.encode()}


def tls_files(folder: Path) -> TlsFiles:
    """The files of a process. folder: of its secrets."""
    return TlsFiles(folder / CERTIFICATE, folder / CERTIFICATE_KEY, folder / AUTHORITY)


class WorkerCredentials:
    """The current credentials of workers' containers. Called by threads that start containers.

    secrets       those of every worker, by alias
    certificates  None: no TLS
    """

    def __init__(self, secrets: Mapping[str, bytes], certificates: ClusterCertificates | None) -> None:
        self._secrets = secrets
        self._certificates = certificates
        self._lock = threading.Lock()
        self._tokens = b""

    def replace_tokens(self, storage: bytes) -> None:
        """Replaces the application's first tokens in containers that are started from now on."""
        with self._lock:
            self._tokens = storage

    def __call__(self, host: str) -> Credentials:
        """Those of a container. host: of its node; empty: for tokens alone."""
        with self._lock:
            tokens = self._tokens
        if self._certificates is None or not host:
            return Credentials(self._secrets, tokens)
        own = {f"{FILE_SECRET}{name}": content for name, content in self._certificates.issue([host]).items()}
        return Credentials({**self._secrets, **own}, tokens)


ANSWER_SECONDS = 60.0
"""How long the JVM waits for a server that does not answer."""


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Obtains delegation tokens by the key table that was shipped to the ApplicationMaster.

    A JVM of its own logs in, obtains tokens, and ends: YARN knows that of the ApplicationMaster by the tokens of the
    application, so it must not become another user.

    urls         a path in each file system
    folder       for the JVM's log
    environment  of this process
    """

    login: KeytabLogin
    urls: Sequence[str]
    folder: Path
    environment: Mapping[str, str]

    def obtain(self) -> ObtainedTokens:
        """Obtains tokens. Raises UserError, ExternalError."""
        # with the tokens of YARN, Hadoop's client would not ask for others
        own = {name: value for name, value in self.environment.items() if name != TOKEN_LOCATION}
        jvm = JvmConfig(find_hadoop_client(own), self.folder, own, settings_for(ANSWER_SECONDS)).open()
        try:
            log_in(jvm, self.login)
            return obtain_tokens(jvm, self.urls)
        finally:
            jvm.close()


LOG = logging.getLogger("headrace.yarn")
USED_OF_LIFETIME = 0.75
"""New tokens are obtained after so much of the time in which the last ones are valid (as Spark does)."""
CERTIFICATES_LOOK_SECONDS = 3_600.0
BACKOFF = Backoff(first_s=1.0, max_s=60.0)
JOIN_SECONDS = 5.0


def wait_seconds(now_ms: int, until_ms: int | None) -> float:
    """How long tokens are used that expire at `until_ms`; None: there are none, and nothing to wait for."""
    if until_ms is None:
        return CERTIFICATES_LOOK_SECONDS
    return max(0.0, (until_ms - now_ms) * USED_OF_LIFETIME / 1_000)


class SecretRenewal:
    """One thread. tokens, certificates: None: there are none to renew; nodes: the hosts of the containers that run;
    host: of this one; folder: of this container's secrets."""

    def __init__(
        self,
        tokens: TokenSource | None,
        certificates: ClusterCertificates | None,
        *,
        credentials: WorkerCredentials,
        nodes: Callable[[], list[str]],
        host: str,
        folder: Path,
    ) -> None:
        self._tokens = tokens
        self._certificates = certificates
        self._credentials = credentials
        self._nodes = nodes
        self._host = host
        self._folder = folder
        self.shared = SharedSecrets()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-secret-renewal", daemon=True)
        self._wait_s = CERTIFICATES_LOOK_SECONDS
        self._due_s = 0.0

    def start(self) -> None:
        """Makes the files that this process needs, then renews them in the thread. Raises UserError, ExternalError."""
        if self._certificates is not None:
            self._certificates.write(self._host)
        if self._tokens is not None:
            # those of the submission may have expired, if this attempt replaces one that has run for days
            self._obtain(self._tokens)
        if self._tokens is not None or self._certificates is not None:
            self._thread.start()

    def close(self) -> None:
        """Ends the thread. Idempotent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        pause_s = 0.0
        while not self._closing.wait(pause_s or min(self._wait_s, CERTIFICATES_LOOK_SECONDS)):
            try:
                self._renew()
                pause_s = 0.0
            except Exception as error:  # the shell of a thread: if it ended, the tokens would expire days later
                pause_s = BACKOFF.next_s(pause_s)
                unknown = not isinstance(error, HeadraceError | OSError)
                text = "tokens and certificates are not renewed, next try in %.0f s: %s"
                LOG.warning(text, pause_s, error, exc_info=unknown)

    def _renew(self) -> None:
        if self._tokens is not None and self._is_due():
            self._obtain(self._tokens)
        if self._certificates is not None and self._certificates.is_due(self._host):
            self._certificates.write(self._host)
            # all workers that run are sent the same one: it holds the names of all their nodes
            self.shared.replace(self._certificates.issue(sorted({self._host, *self._nodes()})))
            LOG.info("the certificates of the cluster are issued anew")

    def _is_due(self) -> bool:
        return time.monotonic() >= self._due_s

    def _obtain(self, source: TokenSource) -> None:
        obtained = source.obtain()
        replace_file(self._folder / TOKENS, obtained.storage, mode=PRIVATE_FILE)
        self._credentials.replace_tokens(obtained.storage)
        self.shared.replace({TOKENS: obtained.storage})
        self._wait_s = wait_seconds(time.time_ns() // 1_000_000, obtained.until_ms)
        self._due_s = time.monotonic() + self._wait_s
        LOG.info("new tokens are obtained, the next ones in %.0f s", self._wait_s)
