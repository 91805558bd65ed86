"""The content of a submission: the pipeline's file form, independent of this process, and its code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.checkpoint.paths import absolute
from headrace.client.code import given_code, limited, own_code
from headrace.client.models import CodeArchive
from headrace.spec.pipeline import Pipeline
from headrace.spec.verbs import Map

_HOST_PATHS = {"files": "path"}
"""Connector -> its field with a path on the host. A relative one refers to the working folder here, not to a slot's."""


def file_form(pipeline: Pipeline) -> dict[str, Any]:
    """The pipeline as plain data, with secrets; relative paths are resolved against the working folder."""
    data = pipeline.to_dict()
    for nodes in (data["sources"], data["sinks"]):
        for node in nodes.values():
            for connector, field in _HOST_PATHS.items():
                if connector in node:
                    node[connector][field] = absolute(node[connector][field])
    if pipeline.checkpoint.storage is not None:
        data["checkpoint"]["storage"] = absolute(pipeline.checkpoint.storage)
    return data


def job_code(
    pipeline: Pipeline, folder: Path, *, py_files: Sequence[str] = (), archives: Sequence[str] = ()
) -> tuple[CodeArchive, ...]:
    """The code of a pipeline whose file lies in `folder`: named code first, then the modules beside the file.

    Raises UserError if it cannot be read, or exceeds `CODE_BYTES_MAX`.
    """
    functions = [step.verb.function for step in pipeline.steps.values() if isinstance(step.verb, Map)]
    own = own_code(folder, [path.partition(":")[0] for path in functions])
    return limited((*given_code(py_files, archives), *(() if own is None else (own,))))
