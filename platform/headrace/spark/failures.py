"""Errors on their way out of a Spark task: as text with a mark, for Spark keeps nothing but text; and back again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from headrace.core.errors import ExternalError, HeadraceError
from headrace.rpc.failure import error_of, failure_of
from headrace.rpc.messages import Failure

_MARK = "headrace-task-failure:"


class TaskFailed(Exception):  # noqa: N818 - reads as the sentence it is
    """A Spark task's error. Its text is for `failure_in`."""


@contextmanager
def task_failures() -> Iterator[None]:
    """Every error inside leaves as TaskFailed."""
    try:
        yield
    except GeneratorExit:
        raise
    except Exception as error:
        raise TaskFailed(_MARK + json.dumps(asdict(failure_of(error)))) from error


def failure_in(text: str) -> HeadraceError | None:
    """The error of ours that Spark's text tells of; None: there is none in it."""
    begin = text.rfind(_MARK)
    if begin < 0:
        return None
    try:
        fields, _ = json.JSONDecoder().raw_decode(text[begin + len(_MARK) :])
    except ValueError:
        return None
    return error_of(Failure(**fields))


def spark_failure(error: Exception) -> HeadraceError:
    """What Spark raised, as an error of ours: the task's own where it has one, else that Spark failed."""
    text = str(error)
    own = failure_in(text)
    if own is not None:
        return own
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    failure = ExternalError(f"Spark failed: {first[:500]}", remedy="look at the logs of its executors")
    failure.add_note(text[:20_000])
    return failure


@contextmanager
def spark_failures() -> Iterator[None]:
    """Around a job, on the driver: what Spark raises inside leaves as an error of ours."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise spark_failure(error) from error
