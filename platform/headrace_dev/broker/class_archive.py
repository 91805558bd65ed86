"""The broker's classes as an archive of the JVM (class data sharing): a broker starts with half the CPU time.

The archive lies beside the jars and belongs to them and to one Java; the JVM ignores it if anything differs. A caller
that starts many brokers, such as tests, has it written once; without one a broker starts as usual.

Source: JEP 310 and JEP 350, application class-data sharing and its dynamic archives.
"""

from __future__ import annotations

from pathlib import Path

from headrace_dev.broker.java import Java

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive_path(folder: Path, java: Java) -> Path:
    """Returns the path of the archive for the jars in `folder` and this Java."""
    text = "".join(char if char.isalnum() else "-" for char in java.version)
    return folder / f"classes-{text}.jsa"


def reading_options(folder: Path, java: Java) -> tuple[str, ...]:
    """Returns the options of a JVM that loads its classes from the archive, if there is one."""
    path = archive_path(folder, java)
    return (f"-XX:SharedArchiveFile={path}", *_QUIET) if path.exists() else ()


def writing_options(path: Path) -> tuple[str, ...]:
    """Returns the options of a JVM that writes its loaded classes to `path` at a normal exit."""
    return (f"-XX:ArchiveClassesAtExit={path}", *_QUIET)
