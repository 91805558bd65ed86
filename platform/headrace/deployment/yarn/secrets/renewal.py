"""Replaces tokens and certificates before they expire, in the ApplicationMaster and in the workers that run.

token source, certificates ──> own files, credentials of new containers, and SharedSecrets ──> workers that run
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.core.errors import HeadraceError
from headrace.core.files.private_files import PRIVATE_FILE
from headrace.core.files.replaced_file import replace_file
from headrace.core.retry import Backoff
from headrace.deployment.yarn.secrets.certificates import ClusterCertificates
from headrace.deployment.yarn.secrets.token_source import TokenSource
from headrace.deployment.yarn.secrets.worker_credentials import WorkerCredentials
from headrace.yarn.container import TOKENS

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
