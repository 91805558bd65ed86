"""What Spark raised becomes what a user can act on."""

from __future__ import annotations

import pytest

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.spark.task.failures import TaskFailedError, spark_failure, task_failures

PY4J = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: ExecutorLostFailure (executor 3 exited)
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
"""
WORKER = """
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise
{}
 SQLSTATE: 38000
"""


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (PY4J, ExternalError, "Spark failed: org.apache.spark.SparkException: Job aborted due to stage failure: Exec"),
        (WORKER.format("OSError: no space left"), ExternalError, "Spark failed: OSError: no space left"),
        (WORKER.format("ModuleNotFoundError: No module named 'headrace'"), UserError, "--archives env.tar.gz#env"),
        (WORKER.format("ModuleNotFoundError: No module named 'mine.own'"), UserError, "--py-files"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has ..", UserError, "another version of Python"),
        ("", ExternalError, "Spark failed: RuntimeError"),
    ],
)
def test_the_reason_is_found(text: str, kind: type[HeadraceError], said: str) -> None:
    failure = spark_failure(RuntimeError(text))
    assert type(failure) is kind
    assert said in str(failure)


def test_a_tasks_own_error_comes_back() -> None:
    with pytest.raises(TaskFailedError) as caught, task_failures():
        raise UserError("row 3 has no shop")
    failure = spark_failure(RuntimeError(WORKER.format(f"TaskFailedError: {caught.value}")))
    assert type(failure) is UserError
    assert failure.message == "row 3 has no shop"
