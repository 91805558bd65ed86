"""Reads specs of custom resources, and the pipelines that they name."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TypeVar

from headrace.core.config import FileModel
from headrace.core.errors import UserError
from headrace.deployment.kubernetes.cluster_spec import CLUSTER_NAME, ClusterSpec
from headrace.kubernetes.connection import Connection, NotFoundError
from headrace.kubernetes.documents import Collection, Document, metadata_of, text_at, value_at
from headrace.kubernetes_operator.decisions.job_view import NoDesire
from headrace.kubernetes_operator.resources.job import ConfigMapKey, JobSpec, RunSpec
from headrace.spec.findings import FindingsError
from headrace.spec.wording import read_model

_Model = TypeVar("_Model", bound=FileModel)
INVALID = "InvalidSpec"
VARIABLES_LABEL = "headrace.dev/variables"
"""A Secret with this label, `true`, may be named in `variablesFrom`."""
NAME_MAX = 63
"""Characters of a name that is also the value of a label."""


def spec_of(document: Document, model: type[_Model]) -> _Model | NoDesire:
    """The spec in a document, or every problem of it."""
    found = value_at(document, "spec")
    try:
        spec = read_model(model, found if isinstance(found, dict) else {})
        _require_sizes(spec)
    except FindingsError as error:
        lines = (": ".join([".".join(("spec", *each.path)), each.message]) for each in error.findings)
        return NoDesire(INVALID, "\n".join(lines))
    except UserError as error:
        return NoDesire(INVALID, str(error))
    return spec


def _require_sizes(spec: FileModel) -> None:
    """Raises UserError if numbers of workers do not fit together."""
    cluster = spec.own_cluster if isinstance(spec, JobSpec) else spec
    if isinstance(cluster, ClusterSpec):
        _ = cluster.workers.provisioning


def run_spec_of(document: Document, spec: JobSpec, connection: Connection) -> RunSpec | NoDesire:
    """The spec that should run, with the text of the pipeline. Raises ExternalError."""
    metadata = metadata_of(document)
    cluster = spec.cluster or metadata.name
    if not CLUSTER_NAME.match(cluster):
        return NoDesire(INVALID, f"{cluster!r} is no name of a cluster: at most 40 lower-case letters, digits and '-'")
    if len(metadata.name) > NAME_MAX:
        return NoDesire(INVALID, f"the name of a job has at most {NAME_MAX} characters")
    text = _pipeline_text(spec, metadata.namespace or "", connection)
    if isinstance(text, NoDesire):
        return text
    return RunSpec(
        pipeline=text,
        cluster=cluster,
        variables=None if spec.variables_from is None else spec.variables_from.secret,
        parallelism=spec.parallelism,
        maxParallelism=spec.max_parallelism,
        allowDroppedState=spec.allow_dropped_state,
        acceptNewTopics=spec.accept_new_topics,
        restartNonce=spec.restart_nonce,
    )


def variables_of(spec: RunSpec, namespace: str, connection: Connection) -> Mapping[str, str]:
    """The values of the pipeline's variables. They are read for a submission and kept nowhere.

    Raises UserError for a Secret without `VARIABLES_LABEL`: a user with the right to create a HeadraceJob may lack the
    right to read Secrets, and a pipeline can send its variables anywhere. Raises ExternalError.
    """
    if spec.variables is None:
        return {}
    secret = connection.get(Collection("v1", "secrets", namespace), spec.variables)
    if text_at(secret, "metadata", "labels", VARIABLES_LABEL) != "true":
        raise UserError(
            f"Secret {spec.variables} is not for variables of pipelines",
            remedy=f"who may read it allows it with: kubectl label secret {spec.variables} {VARIABLES_LABEL}=true",
        )
    data = value_at(secret, "data")
    values = data if isinstance(data, dict) else {}
    return {name: base64.b64decode(str(value)).decode() for name, value in values.items()}


def _pipeline_text(spec: JobSpec, namespace: str, connection: Connection) -> str | NoDesire:
    match spec.pipeline:
        case str(given):
            return given
        case dict(data):
            # JSON is YAML
            return json.dumps(data, indent=2, sort_keys=True)
        case None:
            assert spec.pipeline_from is not None, "the model requires one of both"
            return _in_config_map(spec.pipeline_from.config_map, namespace, connection)


def _in_config_map(place: ConfigMapKey, namespace: str, connection: Connection) -> str | NoDesire:
    try:
        found = connection.get(Collection("v1", "configmaps", namespace), place.name)
    except NotFoundError:
        return NoDesire("NoPipeline", f"there is no ConfigMap {place.name}")
    content = text_at(found, "data", place.key)
    return NoDesire("NoPipeline", f"ConfigMap {place.name} has no key {place.key}") if content is None else content
