"""The broker's classes as the JVM keeps them between runs (class data sharing): a broker starts for half the CPU.

The archive lies beside the jars and belongs to them and to one Java; whatever else it meets, the JVM passes over. Who
starts brokers often, such as tests, has it made once; without one a broker starts as ever.

Source: JEP 310 and JEP 350, application class-data sharing and its dynamic archives.
"""

from __future__ import annotations

from pathlib import Path

from headrace_dev.broker.java import Java

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive_path(folder: Path, java: Java) -> Path:
    """Where the archive for the jars in `folder` and this Java is kept."""
    text = "".join(char if char.isalnum() else "-" for char in java.version)
    return folder / f"classes-{text}.jsa"


def reading(folder: Path, java: Java) -> tuple[str, ...]:
    """Options of a JVM that takes its classes from the archive, if there is one."""
    path = archive_path(folder, java)
    return (f"-XX:SharedArchiveFile={path}", *_QUIET) if path.exists() else ()


def writing(path: Path) -> tuple[str, ...]:
    """Options of a JVM that writes what it has loaded to `path` when it ends in order."""
    return (f"-XX:ArchiveClassesAtExit={path}", *_QUIET)
