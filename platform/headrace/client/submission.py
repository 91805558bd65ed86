"""The content of a submission: the pipeline's file form, independent of this process, its code, its key."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.checkpoint.paths import absolute
from headrace.client.code import given_code, limited, own_code
from headrace.client.models import CodeArchive
from headrace.spec.pipeline import Pipeline
from headrace.spec.verbs import Map

APPLICATION_VARIABLE = "HEADRACE_APPLICATION"
"""The pid of the attendant, in the environment of the program that it runs and starts again."""
_HOST_PATHS = {"files": "path"}
"""Connector -> its field with a path on the host. A relative one refers to the working folder here, not to a slot's."""

_submissions: Counter[str] = Counter()
_counting = threading.Lock()


def application_key(name: str) -> str | None:
    """The key of this process's next submission of a pipeline of that name, if an attendant runs it; else None.

    A program that is started again, beside the next leader, submits the same pipelines in the same order: each finds
    the job of the first time. Its children, which inherit the variable, may come in any order, and have no keys.
    """
    if os.environ.get(APPLICATION_VARIABLE) != str(os.getppid()):
        return None
    with _counting:
        _submissions[name] += 1
        return f"{name}/{_submissions[name]}"


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
