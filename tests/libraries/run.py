"""Runs the tests of each library with the lowest and the highest version of its declared range, one after the other.

`python -m libraries.run`; one library: `--only numpy`; a version outside of the range, to see whether it could be
declared: `--only numpy --version 1.26.4`. The highest version is the newest one that the package index has within the
range; where no index answers, the installed one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from libraries.entries import LIBRARIES, Library, declared, lowest
from libraries.environment import Environment, NotInstalledError
from support.repository import ROOT

_FAILURE_LINES = 40
_TRIED_MAX = 20


@dataclass(frozen=True, slots=True)
class Result:
    """How one entry went; `said` is pytest's last line, or why it did not run."""

    library: str
    version: str
    passed: bool
    said: str

    def __str__(self) -> str:
        return f"{self.library:16} {self.version:22} {'ok' if self.passed else 'FAILED':7} {self.said}"


def run(library: Library, requirement: str, folder: Path, pytest: list[str]) -> Result:
    """One entry: an environment, one library in it, the library's tests."""
    environment = Environment(folder / library.name)
    try:
        note = _installed(library.name, requirement, environment)
        version = environment.version_of(library.name) + note
        return _tested(library, version, environment, pytest)
    except NotInstalledError as error:
        return Result(library.name, requirement, passed=False, said=f"not installed: {error}")
    finally:
        environment.remove()


def _installed(name: str, requirement: str, environment: Environment) -> str:
    """Installs it, or what comes closest; a note where that is another one. Raises NotInstalledError."""
    if "==" not in requirement:
        try:
            environment.install_newest(requirement)
        except NotInstalledError:
            return " (no index answers)"
        return ""
    try:
        environment.install(requirement)
    except NotInstalledError:
        if requirement != f"{name}=={lowest(name)}":
            raise
    else:
        return ""
    # versions from before this Python have no wheel for it
    for version in environment.versions(declared(name))[1:_TRIED_MAX]:
        with suppress(NotInstalledError):
            environment.install(f"{name}=={version}")
            return " (lowest for this Python)"
    raise NotInstalledError(f"no index answers, or {declared(name)} has no wheel for this Python")


def _tested(library: Library, version: str, environment: Environment, pytest: list[str]) -> Result:
    _say(f"-- {library.name} {version}: {len(library.tests)} test paths")
    started = time.monotonic()
    paths = [f"tests/{path}" for path in library.tests]
    done = subprocess.run(
        [str(environment.python), "-m", "pytest", "-q", *pytest, *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode:
        _say("\n".join(lines[-_FAILURE_LINES:]))
    said = next((line for line in reversed(lines) if " passed" in line or " failed" in line), "no test ran")
    seconds = f"{time.monotonic() - started:.0f} s in all"
    return Result(library.name, version, passed=done.returncode == 0, said=f"{said.strip('= ')}; {seconds}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Prints a line for each entry. 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=[each.name for each in LIBRARIES])
    parser.add_argument("--version", action="append", help="these versions instead of the range's ends")
    parser.add_argument("--processes", default="2", help="of pytest, for one entry")
    given = parser.parse_args()
    pytest = ["--numprocesses", given.processes, "--dist", "loadfile"]
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="headrace-libraries-") as folder:
        for library in LIBRARIES:
            if given.only and library.name not in given.only:
                continue
            ends = [f"{library.name}=={lowest(library.name)}", str(declared(library.name))]
            versions = [f"{library.name}=={version}" for version in given.version or ()]
            for requirement in versions or dict.fromkeys(ends):
                results.append(run(library, requirement, Path(folder), pytest))
                _say(str(results[-1]))
    _say("\n".join(["", *map(str, results)]))
    return 0 if all(each.passed for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
