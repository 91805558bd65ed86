"""Fetches the jars that tests run, the broker's and YARN's, where this user has them not: `python -m support.jars`.

Tests start brokers by the dozen, so an archive of their classes is made as well.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from headrace_dev.broker.broker import archive_path
from headrace_dev.broker.ivy import ensure_jars, jars_folder
from headrace_dev.broker.java import Java, find_java
from support.hadoop import jars as hadoop_jars

STOP_SECONDS = 300.0


def make_class_archive(java: Java) -> None:
    """Runs a broker once; it writes its classes as it ends, into the folder of the jars."""
    folder = jars_folder()
    path = archive_path(folder, java)
    if path.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, path.name)
        config = BrokerConfig(Path(scratch, "data"), short_lived=True, writes_classes=made, stop_seconds=STOP_SECONDS)
        with EmbeddedBroker(config):
            pass
        made.replace(path)


if __name__ == "__main__":
    found = find_java()
    ensure_jars(found)
    make_class_archive(found)
    hadoop_jars.classpath(found)
