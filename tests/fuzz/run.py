"""Runs each fuzzer twice: with the kernels of the package, and with ones that sanitizers watch.

`PYTHONPATH=tests python -m fuzz.run --seconds 600 --seed 1`: so many seconds for each fuzzer and library.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from fuzz.command import again, say
from headrace.kernels.compiling import LIBRARY, SANITIZED, compile_library, compiler

FUZZERS = (
    "fuzz.json_decode",
    "fuzz.csv_decode",
    "fuzz.avro_decode",
    "fuzz.group_by",
    "fuzz.json_encode",
    "fuzz.avro_encode",
    "fuzz.float_text",
    "fuzz.arrow_message",
    "fuzz.state_runs",
)
_LINES_SHOWN = 60
_OPTIONS = {
    # Python keeps what it has at its end
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # allocations of Arrow are ones of the system, which the sanitizer watches
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def main() -> int:
    """Returns the exit code: 1 if a fuzzer failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each fuzzer and library")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=FUZZERS, help="one fuzzer")
    given = parser.parse_args()
    fuzzers = FUZZERS if given.only is None else (given.only,)
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as folder:
        sanitized = Path(folder) / "headrace_kernels.so"
        compile_library(sanitized, SANITIZED)
        environments: dict[Path, Mapping[str, str]] = {LIBRARY: {}, sanitized: _sanitizer_environment()}
        # all of them, also behind one that fails
        codes = [
            _run(module, given.seed, given.seconds, path, environment)
            for path, environment in environments.items()
            for module in fuzzers
        ]
    return int(any(codes))


def _sanitizer_environment() -> dict[str, str]:
    """With the run-time library of the sanitizer, which has to be loaded before Python."""
    command = compiler()
    assert command is not None, "the library was compiled"
    found = subprocess.run([*command, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return {"LD_PRELOAD": found.stdout.strip(), **_OPTIONS}


def _run(module: str, seed: int, seconds: float, library: Path, environment: Mapping[str, str]) -> int:
    """Runs one fuzzer; shows its result, or the end of its output with the command that repeats its last batch."""
    say(f"{module} {'with sanitizers' if environment else 'as it is'}")
    arguments = ["--seed", str(seed), "--seconds", str(seconds), "--library", str(library), "--trace"]
    number, lines = 0, deque[str](maxlen=_LINES_SHOWN)
    with _started([sys.executable, "-m", module, *arguments], environment) as process:
        assert process.stdout is not None, "it was asked for"
        for line in process.stdout:
            if line.startswith("batch "):
                number = int(line.removeprefix("batch "))
            else:
                lines.append(line)
    sys.stdout.writelines(lines)
    if process.returncode:
        say(f"{module} ended with {process.returncode}; {again(module, seed, number)}")
    return process.returncode


def _started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


if __name__ == "__main__":
    sys.exit(main())
