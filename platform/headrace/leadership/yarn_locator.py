"""Finds the leader of a cluster on YARN by the addresses that its ApplicationMaster has registered.

    yarn://application_1732_0001    an application
    yarn://NAME                     the live application of this user with the name

Uses a JVM with Hadoop's client, which starts with the first use.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError, UserError
from headrace.leadership.elector import Leader

if TYPE_CHECKING:
    from headrace.yarn.client import YarnClient
    from headrace.yarn.records import ApplicationReport

SCHEME = "yarn://"
APPLICATION_PREFIX = "application_"
LOOK_SECONDS = 0.5


def name_tag(name: str) -> str:
    """The tag of the applications of a cluster. YARN writes tags in lower case."""
    return f"headrace-cluster-{name}".lower()


@dataclass(frozen=True, slots=True)
class YarnAddress:
    """application: a name, or an id, which begins with `APPLICATION_PREFIX`."""

    application: str

    @staticmethod
    def parsed(url: str) -> YarnAddress:
        """Reads `yarn://..`. Raises UserError."""
        name = url.removeprefix(SCHEME).strip("/")
        if not url.startswith(SCHEME) or not name or "/" in name:
            raise UserError(f"{url} names no cluster on YARN", remedy="write yarn://NAME or yarn://application_..")
        return YarnAddress(name)

    @property
    def is_id(self) -> bool:
        """Whether it is the id of an application."""
        return self.application.startswith(APPLICATION_PREFIX)


def find_application(client: YarnClient, address: YarnAddress) -> ApplicationReport:
    """The application. Raises UserError if there is none that lives, of a name; ExternalError."""
    if address.is_id:
        return client.report(address.application)
    found = client.live(name_tag(address.application))
    if not found:
        raise UserError(
            f"no cluster {address.application} of {client.user} runs on YARN",
            remedy="headrace cluster start --target yarn starts one; yarn://application_.. names one that has ended",
        )
    return found[-1]


class YarnLocator:
    """By the contract of `leadership.elector.Locator`."""

    def __init__(self, address: YarnAddress, environment: Mapping[str, str]) -> None:
        self._address = address
        self._environment = environment
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._client: YarnClient | None = None
        self._application: str | None = None
        self._last: Leader | None = None
        self._looked_s: float | None = None

    def find(self) -> Leader | None:
        """The registered addresses; None while an ApplicationMaster starts. Raises UserError; ExternalError for an
        application that has ended."""
        with self._lock:
            now_s = time.monotonic()
            if self._looked_s is None or now_s - self._looked_s >= LOOK_SECONDS:
                self._last = self._asked()
                self._looked_s = now_s
            return self._last

    def close(self) -> None:
        """Ends the JVM."""
        self._stack.close()

    def _asked(self) -> Leader | None:
        report = self._report()
        if not report.is_live:
            raise ExternalError(
                f"{report.application} has ended, {report.final_status}: {report.diagnostics or 'no reason'}",
                remedy=f"headrace logs JOB --coordinator {SCHEME}{report.application} shows what it has logged",
            )
        if not report.url or not report.control:
            return None
        # a later attempt has another address; its number stands for the term, which YARN does not know
        return Leader(report.url, report.control, report.attempt)

    def _report(self) -> ApplicationReport:
        from headrace.yarn.client import open_yarn_client

        if self._client is None:
            self._client = self._stack.enter_context(open_yarn_client(self._environment))
        if self._application is None:
            report = find_application(self._client, self._address)
            self._application = report.application
            return report
        return self._client.report(self._application)
