"""What the containers of an application have printed, once it has ended and its nodes have put the logs together.

Hadoop's own `yarn logs` is not used: its class needs jars that the client's do not have. This reads with the classes
below it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.yarn.client import YarnClient
from headrace.yarn.conversions import items
from headrace.yarn.refusals import refusals

_ALL = 2**63 - 1
_FILES = ("stdout", "stderr")


def aggregated_logs(client: YarnClient, application: str, user: str) -> Mapping[str, str]:
    """Container -> text of its `stdout` and `stderr`; empty while there is nothing yet, which may take seconds after
    the end. Raises ExternalError, also where the cluster does not aggregate logs."""
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
        found: dict[str, str] = {}
        for entry in items(controller.readAggregatedLogsMeta(request)):
            own = package.ContainerLogsRequest(request)
            own.setContainerId(entry.getContainerId())
            own.setNodeId(entry.getNodeId())
            own.setLogTypes(set(_FILES))
            out = jvm.java.java.io.ByteArrayOutputStream()
            controller.readAggregatedLogs(own, out)
            found[str(entry.getContainerId())] = str(out.toString())
    return found
