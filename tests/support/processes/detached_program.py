"""A program that detaches itself again, some generations deep; the last one writes down what it finds itself to be."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from headrace.processes.detached import ModuleCommand, Surroundings
from headrace.processes.installation import import_path
from headrace.processes.marked_process import start_module

PROGRAM, ROLE = "support.processes.detached_program", "headrace-detached"


def command(generations: int, report: Path) -> ModuleCommand:
    """The program, so many generations above the last."""
    arguments = (ROLE, "--generations", str(generations), "--report", str(report))
    return ModuleCommand(PROGRAM, arguments, ("-X", "mark=it"))


def main() -> None:
    """Starts the next generation, whose pid it prints, or reports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role")
    parser.add_argument("--generations", type=int, required=True)
    parser.add_argument("--report", type=Path, required=True)
    given = parser.parse_args()
    if given.generations:
        where = Surroundings(given.report.parent, given.report.with_suffix(".log"), os.environ | {"GENERATION": "next"})
        pid = start_module(command(given.generations - 1, given.report), where)
        sys.stdout.write(f"{pid}\n")
        return
    written = given.report.with_suffix(".new")
    written.write_text(json.dumps(_facts()))
    written.replace(given.report)
    sys.stdin.read()
    sys.exit(7)


def _facts() -> dict[str, object]:
    descriptors = {int(each.name): str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.exists()}
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "folder": str(Path.cwd()),
        "path": [each for each in import_path() if each],
        "arguments": sys.argv[1:],
        "variable": os.environ["GENERATION"],
        "descriptors": {number: descriptors[number] for number in sorted(descriptors)},
    }


if __name__ == "__main__":
    main()
