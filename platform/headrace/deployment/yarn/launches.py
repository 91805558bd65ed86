"""What the containers of a cluster run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from headrace.deployment.yarn.application_file import HADOOP_CONF_LINK, ApplicationFile
from headrace.deployment.yarn.cluster_spec import YarnSpec
from headrace.deployment.yarn.secrets.certificates import tls_files
from headrace.resources.worker_order import WorkerOrder
from headrace.yarn.container import NODE_VARIABLE, TOKEN
from headrace.yarn.records import Launch, StagedFile

BOOTSTRAP = ("-m", "headrace.yarn.container")
MASTER_MODULE, MASTER_ROLE = "headrace.deployment.yarn.application_master", "headrace-coordinator"
WORKER_SECRETS = "home/secrets"
"""The folder of a container's secrets (`yarn.container`)."""
_HADOOP_USER = "HADOOP_USER_NAME"


def master_launch(spec: YarnSpec, files: tuple[StagedFile, ...], user: str) -> Launch:
    """The container of the ApplicationMaster."""
    return Launch((spec.interpreter, *BOOTSTRAP, MASTER_MODULE, MASTER_ROLE), files, _environment(spec, user))


def worker_launch(application: ApplicationFile, order: WorkerOrder, worker: str) -> Launch:
    """The container of a worker. Its slots listen at the node's own address, unless all are on one host."""
    tls = None if order.tls is None else tls_files(Path(WORKER_SECRETS))
    own = replace(order, host=None, token_file=Path(WORKER_SECRETS) / TOKEN, tls=tls)
    command = (application.spec.interpreter, *BOOTSTRAP, "headrace", *own.arguments(worker))
    files = tuple(each.staged() for each in application.files)
    return Launch((*command, "--host", f"${NODE_VARIABLE}"), files, _environment(application.spec, application.user))


def _environment(spec: YarnSpec, user: str) -> Mapping[str, str]:
    # without Kerberos the name is all that file systems ask for
    own = {"HADOOP_CONF_DIR": HADOOP_CONF_LINK, _HADOOP_USER: user}
    # unpacked files are read-only
    return {**own, "PYTHONDONTWRITEBYTECODE": "1", **spec.env}
