"""What every Spark of tests is told, by a `spark-defaults.conf` and the environment: to start quickly, and to have the
patience of a machine that stands still for a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.patience import SPARK_SECONDS

__all__ = ["JAVA", "SPARK_SECONDS", "spark_settings"]

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVMs that live for seconds: to compile well takes longer than all that they do."""
DEFAULTS = {
    "spark.executor.extraJavaOptions": JAVA,
    # executors of local-cluster and Python workers that a busy machine holds up are not lost
    "spark.network.timeout": "600s",
    "spark.python.authenticate.socketTimeout": "600s",
    "spark.yarn.am.waitTime": "600s",
}


@contextmanager
def spark_settings(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Holds for this process and those that it starts. `folder`: where the file comes; more: settings besides."""
    folder.mkdir()
    told = DEFAULTS | dict(more or {})
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in told.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.setenv("SPARK_SUBMIT_OPTS", JAVA)
        patch.setenv("SPARK_DAEMON_JAVA_OPTS", JAVA)
        yield
