"""A client of the ResourceManager: submits, finds, reports and kills applications, and reads their logs."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.yarn.conversions import items, java_credentials, java_launch, java_size, report_of
from headrace.yarn.jvm import Jvm, JvmConfig, find_hadoop_client, settings_for
from headrace.yarn.kerberos import KeytabLogin, log_in, login_of
from headrace.yarn.records import LIVE_STATES, ApplicationReport, ContainerSize, Credentials, Launch
from headrace.yarn.refusals import refusals

APPLICATION_TYPE = "HEADRACE"
_RECORDS = "org.apache.hadoop.yarn.api.records"
ANSWER_SECONDS = 30.0
"""How long a client waits for a ResourceManager that does not answer."""


@dataclass(frozen=True, slots=True)
class Submission:
    """An application.

    size         of the ApplicationMaster's container
    attempts     limit of the attempts of the ApplicationMaster
    validity_ms  attempts that failed within this time count; None: all
    credentials  of the ApplicationMaster
    """

    name: str
    queue: str
    priority: int
    tags: tuple[str, ...]
    node_label: str | None
    size: ContainerSize
    attempts: int
    validity_ms: int | None
    launch: Launch
    credentials: Credentials


class YarnClient:
    """One user's client. Calls are bounded by `ANSWER_SECONDS` where nobody answers. Raises ExternalError."""

    def __init__(self, jvm: Jvm, login: KeytabLogin | None = None) -> None:
        """login: with Kerberos; None: by the ticket cache of this user."""
        self.jvm = jvm
        if login is not None:
            log_in(jvm, login)
        with refusals(jvm, "the connection to YARN"):
            self._client: Any = jvm.java.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
            self._client.init(jvm.conf)
            self._client.start()

    @property
    def user(self) -> str:
        """The name by which YARN knows this process."""
        with self.jvm.calls():
            information = self.jvm.java.org.apache.hadoop.security.UserGroupInformation
            return str(information.getCurrentUser().getShortUserName())

    def create(self) -> NewApplication:
        """Has the ResourceManager give an id. Nothing of an application that is never submitted stays."""
        with refusals(self.jvm, "a new application"):
            return NewApplication(self.jvm, self._client, self._client.createApplication())

    def report(self, application: str) -> ApplicationReport:
        """Shows one application. Raises ApplicationNotFoundError."""
        with refusals(self.jvm, f"the report of {application}"):
            return report_of(self._client.getApplicationReport(self._id(application)))

    def live(self, tag: str) -> tuple[ApplicationReport, ...]:
        """This user's applications with a tag that have not ended, newest last."""
        with refusals(self.jvm, "the list of applications"):
            states = self.jvm.records.YarnApplicationState
            live_states = self.jvm.java.java.util.EnumSet.noneOf(
                self.jvm.java_class(f"{_RECORDS}.YarnApplicationState")
            )
            for name in LIVE_STATES:
                live_states.add(getattr(states, name))
            listed = [report_of(each) for each in items(self._client.getApplications({APPLICATION_TYPE}, live_states))]
        user = self.user
        tagged = (each for each in listed if tag in each.tags and each.user == user)
        return tuple(sorted(tagged, key=lambda each: _numbers(each.application)))

    def kill(self, application: str) -> None:
        """Ends an application and its containers, within a second. Does nothing to one that has ended."""
        with refusals(self.jvm, f"the end of {application}"):
            self._client.killApplication(self._id(application))

    def close(self) -> None:
        """Ends the JVM."""
        with contextlib.suppress(Exception):
            self._client.stop()
        self.jvm.close()

    def _id(self, application: str) -> Any:
        return self.jvm.records.ApplicationId.fromString(application)


class NewApplication:
    """An application that has an id, and was not submitted yet."""

    def __init__(self, jvm: Jvm, client: Any, created: Any) -> None:
        self._jvm = jvm
        self._client = client
        self._context = created.getApplicationSubmissionContext()
        self.application = str(self._context.getApplicationId().toString())

    def submit(self, submission: Submission) -> None:
        """Submits it; returns when the ResourceManager has accepted it. Raises RefusedError, such as for an unknown
        queue, or a container that is larger than any node."""
        with refusals(self._jvm, f"the submission of {submission.name}"):
            context, records = self._context, self._jvm.records
            context.setApplicationType(APPLICATION_TYPE)
            context.setApplicationName(submission.name)
            context.setQueue(submission.queue)
            context.setPriority(records.Priority.newInstance(submission.priority))
            context.setApplicationTags(set(submission.tags))
            context.setResource(java_size(self._jvm, submission.size))
            if submission.node_label is not None:
                context.setNodeLabelExpression(submission.node_label)
            context.setMaxAppAttempts(submission.attempts)
            if submission.validity_ms is not None:
                context.setAttemptFailuresValidityInterval(submission.validity_ms)
            # workers outlive the ApplicationMaster, and join the next one
            context.setKeepContainersAcrossApplicationAttempts(True)
            tokens = java_credentials(self._jvm, submission.credentials)
            context.setAMContainerSpec(java_launch(self._jvm, submission.launch, tokens))
            self._client.submitApplication(context)


def _numbers(application: str) -> tuple[int, ...]:
    """The start of the ResourceManager and the number in an application's id, by which they are in order."""
    return tuple(int(part) for part in application.split("_")[1:])


@contextmanager
def open_yarn_client(
    environment: Mapping[str, str] = os.environ, login: KeytabLogin | None = None
) -> Iterator[YarnClient]:
    """A client with a JVM of its own. login: with Kerberos; None: the environment's, else by the ticket cache.
    Raises UserError for what is missing on this host, ExternalError."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-yarn-"))
    try:
        config = JvmConfig(find_hadoop_client(environment), folder, environment, settings_for(ANSWER_SECONDS))
        jvm = config.open()
        try:
            client = YarnClient(jvm, login or login_of(environment))
        except BaseException:
            jvm.close()
            raise
        try:
            yield client
        finally:
            client.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_ALL = 2**63 - 1
_FILES = ("stdout", "stderr")


def aggregated_logs(client: YarnClient, application: str, user: str) -> Mapping[str, str]:
    """Returns container -> text of its `stdout` and `stderr`; empty until the nodes have aggregated the logs, seconds
    after the application's end. Raises ExternalError, also where the cluster does not aggregate logs.

    Hadoop's own `yarn logs` is not used: its class needs jars that the client does not have.
    """
    jvm = client.jvm
    package = jvm.java.org.apache.hadoop.yarn.logaggregation
    with refusals(jvm, f"the log of {application}"):
        identity = jvm.records.ApplicationId.fromString(application)
        factory = package.filecontroller.LogAggregationFileControllerFactory(jvm.conf)
        controller = factory.getFileControllerForRead(identity, user)
        request = package.ContainerLogsRequest()
        request.setAppId(identity)
        request.setAppOwner(user)
        request.setAppFinished(True)
        request.setBytes(_ALL)
        logs: dict[str, str] = {}
        for entry in items(controller.readAggregatedLogsMeta(request)):
            container_request = package.ContainerLogsRequest(request)
            container_request.setContainerId(entry.getContainerId())
            container_request.setNodeId(entry.getNodeId())
            container_request.setLogTypes(set(_FILES))
            out = jvm.java.java.io.ByteArrayOutputStream()
            controller.readAggregatedLogs(container_request, out)
            logs[str(entry.getContainerId())] = str(out.toString())
    return logs
