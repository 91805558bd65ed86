"""Starts, inspects and stops a cluster on YARN. Blocking.

    start   checks the Python, stages the files, submits the application, waits until its coordinator leads
    stop    asks the coordinator, which suspends jobs and unregisters; kills the application if nobody answers

Token and key of a cluster stay in this home: a cluster of that name that is started again goes on with its jobs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import headrace
from headrace.client.http import Client
from headrace.client.token_files import ensure_token, given_token
from headrace.client.yarn_clusters import APPLICATION, AUTHORITY_FILE, TOKEN_FILE, authority_of, token_of, yarn_clusters
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.core.settings import Home
from headrace.deployment.yarn.application import Work, master_launch
from headrace.deployment.yarn.cluster_spec import YarnCluster, memory_mb
from headrace.deployment.yarn.shipping import Shipment, check_files, check_python
from headrace.leadership.yarn_locator import SCHEME, YarnAddress, find_application, name_tag
from headrace.tls.files import tls_authority
from headrace.tls.issuing import KeyPair, new_authority
from headrace.yarn.client import Submission, YarnClient
from headrace.yarn.container import AUTHORITY, AUTHORITY_KEY, FILE_SECRET, KEY, TOKEN, VARIABLE_SECRET
from headrace.yarn.jvm import conf_folders
from headrace.yarn.kerberos import is_secured, obtain_tokens, resource_manager_principal, with_tokens
from headrace.yarn.records import ApplicationReport, ContainerSize, Credentials
from headrace.yarn.staging import Staging, is_live, sweep

KEY_FILE, OWN = "key", "own"
OWN_KEPT = 20
"""Records of clusters of their own that stay after their end, so that `headrace logs` finds them by name."""


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """The files of this host about one cluster on YARN: its secrets, and how it is found.

        <home>/yarn/<name>/token           of workers and clients
                           key             of the ledger: without it a cluster of that name cannot continue its jobs
                           ca.crt, ca.key  the authority of its certificates, with TLS
                           application     the id of the application that was started last
                           own             of a cluster that ends with its job: the folder is deleted some time later

    Each file has mode 0600. Another host's clients need HEADRACE_TOKEN.
    """

    folder: Path

    @staticmethod
    def of(home: Home, name: str) -> ClientRecord:
        """Of a cluster's name. Creates nothing."""
        return ClientRecord(yarn_clusters(home) / name)

    @property
    def key_file(self) -> Path:
        """The file with the ledger's key."""
        return self.folder / KEY_FILE

    def token(self) -> str:
        """The cluster's token, made at random if there is none. Raises UserError."""
        make_private_folder(self.folder)
        return ensure_token(self.folder / TOKEN_FILE)

    def key(self) -> str:
        """The ledger's key, made at random if there is none. Raises UserError."""
        make_private_folder(self.folder)
        return ensure_token(self.key_file)

    def authority(self) -> KeyPair:
        """The authority of the cluster's certificates, made if there is none."""
        certificate, key = self.folder / AUTHORITY_FILE, self.folder / AUTHORITY_KEY
        make_private_folder(self.folder)
        if not certificate.exists():
            made = new_authority(f"authority of {self.folder.name}", datetime.now(UTC))
            replace_file(key, made.key.encode(), mode=PRIVATE_FILE)
            replace_file(certificate, made.certificate.encode(), mode=PRIVATE_FILE)
        return KeyPair(certificate.read_text(), key.read_text())

    def forget_authority(self) -> None:
        """Forgets it: the cluster that starts has no TLS."""
        for name in (AUTHORITY_FILE, AUTHORITY_KEY):
            (self.folder / name).unlink(missing_ok=True)

    def started(self, application: str, *, is_own: bool = False) -> None:
        """Records the application. is_own: its cluster ends with its job or program."""
        replace_file(self.folder / APPLICATION, f"{application}\n".encode(), mode=PRIVATE_FILE)
        if is_own:
            (self.folder / OWN).touch(PRIVATE_FILE)

    def application(self) -> str:
        """The application that was recorded last; empty: none."""
        file = self.folder / APPLICATION
        return file.read_text().strip() if file.exists() else ""

    def delete(self) -> None:
        """Forgets the cluster."""
        shutil.rmtree(self.folder, ignore_errors=True)


def old_own_records(home: Home) -> tuple[ClientRecord, ...]:
    """The records of clusters of their own, but for the `OWN_KEPT` newest."""
    marks = sorted(yarn_clusters(home).glob(f"*/{OWN}"), key=lambda mark: mark.stat().st_mtime)
    records = tuple(ClientRecord(mark.parent) for mark in marks[:-OWN_KEPT])
    return tuple(record for record in records if record.application())


START_SECONDS, STOP_SECONDS = 300.0, 90.0
LOOK_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Started:
    """A cluster whose coordinator leads. coordinator: the URL by which clients find it."""

    report: ApplicationReport

    @property
    def coordinator(self) -> str:
        """`yarn://application_..`."""
        return f"{SCHEME}{self.report.application}"


class YarnDeployer:
    """The clusters of this user. environment: of the command, from which the description's secrets are taken."""

    def __init__(self, client: YarnClient, home: Home, environment: Mapping[str, str]) -> None:
        self._client = client
        self._home = home
        self._environment = environment

    def start(self, cluster: YarnCluster, work: Work, report: Callable[[str], None]) -> Started:
        """Submits the application, and waits until its coordinator leads. report: receives lines of progress.

        Raises UserError for what cannot run; ExternalError for what YARN refuses, with its words.
        """
        check_python(cluster.spec, headrace.__version__)
        check_files(cluster.spec, work.program)
        secrets = self._secrets(cluster)
        if self._client.live(name_tag(cluster.name)):
            raise UserError(
                f"a cluster {cluster.name} runs on YARN",
                remedy=f"headrace cluster stop --target yarn --name {cluster.name} stops it",
            )
        application = self._submitted(cluster, work, secrets, report)
        try:
            return Started(self._wait_leader(application, report))
        except ExternalError:
            if not is_live(self._client, application):
                Staging(self._client.jvm, cluster.spec.staging, application).delete()
            raise

    def stop(self, name: str) -> bool:
        """Ends the application of a cluster; returns whether there was one. Raises UserError without its token,
        ExternalError."""
        found = self._client.live(name_tag(name))
        for each in found:
            if not self._asked_to_end(each):
                self._client.kill(each.application)
            self._wait_ended(each.application)
        return bool(found)

    def view(self, name: str) -> ApplicationReport:
        """The application of a cluster. Raises UserError if none runs."""
        return find_application(self._client, YarnAddress(name))

    def forget(self, name: str) -> None:
        """Deletes token and key of a cluster from this home."""
        ClientRecord.of(self._home, name).delete()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _submitted(
        self, cluster: YarnCluster, work: Work, secrets: Mapping[str, bytes], report: Callable[[str], None]
    ) -> str:
        spec, record = cluster.spec, ClientRecord.of(self._home, cluster.name)
        application = self._client.create()
        self._sweep(spec.staging, application.application, report)
        staging = Staging(self._client.jvm, spec.staging, application.application)
        try:
            shipment = Shipment(staging, cluster, work, conf_folders(self._environment))
            tokens = self._tokens(cluster, staging.url, report)
            files = shipment.ship(user=self._client.user, key_file=record.key_file)
            application.submit(
                Submission(
                    name=cluster.name,
                    queue=spec.queue,
                    priority=spec.priority,
                    tags=(*spec.tags, name_tag(cluster.name)),
                    node_label=spec.node_label,
                    size=ContainerSize(memory_mb(spec.coordinator.memory), spec.coordinator.vcores),
                    attempts=spec.coordinator.attempts,
                    validity_ms=spec.coordinator.attempts_validity_ms,
                    launch=master_launch(spec, files, self._client.user),
                    credentials=Credentials(secrets, tokens),
                )
            )
        except HeadraceError:
            with contextlib.suppress(HeadraceError):
                staging.delete()
            raise
        record.started(application.application, is_own=cluster.is_own)
        return application.application

    def _secrets(self, cluster: YarnCluster) -> Mapping[str, bytes]:
        """The credentials of the ApplicationMaster. Raises UserError for a variable that is not set."""
        record = ClientRecord.of(self._home, cluster.name)
        missing = [name for name in cluster.spec.secrets if name not in self._environment]
        if missing:
            raise UserError(f"the secret {missing[0]} is not set", remedy=f"export {missing[0]}, or remove it")
        files = {f"{FILE_SECRET}{TOKEN}": record.token().encode(), f"{FILE_SECRET}{KEY}": record.key().encode()}
        if cluster.spec.tls:
            authority = record.authority()
            files[f"{FILE_SECRET}{AUTHORITY}"] = authority.certificate.encode()
            files[f"{FILE_SECRET}{AUTHORITY_KEY}"] = authority.key.encode()
        else:
            record.forget_authority()
        named = {f"{VARIABLE_SECRET}{name}": self._environment[name].encode() for name in cluster.spec.secrets}
        return {**files, **named}

    def _tokens(self, cluster: YarnCluster, staging: str, report: Callable[[str], None]) -> bytes:
        """The delegation tokens of the application, which YARN renews; empty: the cluster requires no Kerberos."""
        jvm, spec = self._client.jvm, cluster.spec
        if not is_secured(jvm):
            return b""
        urls = with_tokens((staging, cluster.ledger, spec.checkpoints))
        obtained = obtain_tokens(jvm, urls, resource_manager_principal(jvm))
        if obtained.ends_ms is not None and spec.kerberos is None:
            ends = datetime.fromtimestamp(obtained.ends_ms / 1_000, UTC).isoformat(timespec="minutes")
            report(f"the cluster reaches its storage until {ends} at most: kerberos in --config renews that")
        return obtained.storage

    def _sweep(self, staging: str | None, application: str, report: Callable[[str], None]) -> None:
        """Deletes what ended applications have left: staging folders, and secrets of clusters of their own."""
        try:
            sweep(self._client, staging, application)
            for record in old_own_records(self._home):
                if not is_live(self._client, record.application()):
                    record.delete()
        except ExternalError as error:
            # leftovers of other clusters must not prevent this start
            report(f"what ended applications have left stays: {error.message}")

    def _wait_leader(self, application: str, report: Callable[[str], None]) -> ApplicationReport:
        deadline_s, said = time.monotonic() + START_SECONDS, ""
        while True:
            found = self._client.report(application)
            if not found.is_live:
                raise ExternalError(
                    f"application {application} has ended, {found.final_status}: {found.diagnostics or 'no reason'}",
                    remedy=f"yarn logs -applicationId {application} shows what it has printed",
                )
            if found.url:
                return found
            line = f"{application} is {found.state}" + (f": {found.diagnostics}" if found.diagnostics else "")
            if line != said:
                said = line
                report(line)
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"no coordinator leads after {START_SECONDS:g} s: {line}",
                    remedy=f"the application waits on: yarn application -kill {application} ends it",
                )
            time.sleep(LOOK_SECONDS)

    def _asked_to_end(self, report: ApplicationReport) -> bool:
        """Asks the coordinator to end the cluster. Returns whether it answers. Raises UserError without its token."""
        token = given_token() or token_of(self._home, f"{SCHEME}{report.application}")
        if token is None:
            raise UserError(
                f"the token of {report.name} is not in this home",
                remedy="HEADRACE_TOKEN gives it; yarn application -kill ends an application without it",
            )
        if not report.url:
            return False
        try:
            authority = authority_of(self._home, f"{SCHEME}{report.application}") or tls_authority(os.environ)
            with Client(report.url, token, authority=authority) as client:
                client.shutdown()
        except ExternalError:
            return False
        return True

    def _wait_ended(self, application: str) -> None:
        deadline_s = time.monotonic() + STOP_SECONDS
        is_killed = False
        while self._client.report(application).is_live:
            if time.monotonic() > deadline_s:
                if is_killed:
                    raise ExternalError(f"application {application} does not end", remedy="ask YARN's administrator")
                self._client.kill(application)
                is_killed, deadline_s = True, time.monotonic() + STOP_SECONDS
            time.sleep(LOOK_SECONDS)
