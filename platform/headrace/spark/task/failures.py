"""Errors on their way out of a Spark task: Spark keeps only text, so they travel as marked JSON, and are parsed
again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from headrace.core.concealing import conceals
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.rpc.failure import error_of, failure_of
from headrace.rpc.messages import Failure

_MARK = "headrace-task-failure:"
_NOTE_CHARACTERS = 20_000
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_OF_ENVIRONMENT = {"headrace", "headrace_connectors", "polars", "pyarrow", "numpy"}
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)(: |$)")
"""The last line of a Python traceback: no other line of Spark's text begins like this."""


class TaskFailedError(Exception):
    """A Spark task's error. Its text is for `failure_in`."""


@contextmanager
def task_failures() -> Iterator[None]:
    """Every error inside leaves as TaskFailedError."""
    try:
        yield
    except GeneratorExit:
        raise
    except Exception as error:
        # Spark logs the cause, too: its text may contain what this process hides
        cause = None if conceals() else error
        raise TaskFailedError(_MARK + json.dumps(asdict(failure_of(error)))) from cause


def failure_in(text: str) -> HeadraceError | None:
    """Returns headrace's own error in Spark's text, or None."""
    begin = text.rfind(_MARK)
    if begin < 0:
        return None
    try:
        fields, _ = json.JSONDecoder().raw_decode(text[begin + len(_MARK) :])
    except ValueError:
        return None
    return error_of(Failure(**fields))


def spark_failure(error: Exception) -> HeadraceError:
    """Returns Spark's exception as a headrace error: the task's own if it has one, else that Spark failed."""
    text = str(error)
    own = failure_in(text)
    if own is not None:
        return own
    return _of_tasks_python(text) or _of_spark(text, type(error).__name__)


def _of_tasks_python(text: str) -> HeadraceError | None:
    """Returns the error for a Python on the hosts that lacks a module or has another version."""
    missing = _MISSING_MODULE.search(text)
    if missing is not None and missing[1].partition(".")[0] in _OF_ENVIRONMENT:
        failure = UserError(
            f"the Python of tasks has no module {missing[1]!r}",
            remedy="bring a Python with headrace: --archives env.tar.gz#environment, or name one that all hosts have: "
            "PYSPARK_PYTHON (docs/spark.md)",
        )
    elif missing is not None:
        failure = UserError(
            f"the Python of tasks has no module {missing[1]!r}",
            remedy="modules beside the pipeline file travel by themselves; bring others by --py-files or --archives",
        )
    elif "PYTHON_VERSION_MISMATCH" in text:
        failure = UserError("tasks run another version of Python than this one", remedy="bring one of this version")
    else:
        return None
    failure.add_note(text[:_NOTE_CHARACTERS])
    return failure


def _of_spark(text: str, name: str) -> HeadraceError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in text.splitlines() if _RAISED.match(line)]
    causes = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    reason = (raised[-1:] or causes or lines or [name])[0]
    failure = ExternalError(f"Spark failed: {reason[:500]}", remedy="look at the logs of its executors")
    failure.add_note(text[:_NOTE_CHARACTERS])
    return failure


@contextmanager
def spark_failures() -> Iterator[None]:
    """Around a job, on the driver: Spark's exceptions leave as headrace errors."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise spark_failure(error) from error
