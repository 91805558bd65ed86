"""Forks a process of our own off this one, which outlives it.

    this process ── fork (`double_fork`) ──> child: resets what it inherited ──"ready"──> runs its module
       └─ returns once the child is ready, which then shows its own command line

The child begins with what this process has imported: an interpreter less to start. It ends as a fork of
`multiprocessing` does: without the exit handlers of the process that it was forked off.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from headrace.core.errors import ExternalError
from headrace.core.files.private_files import PRIVATE_FILE
from headrace.processes.double_fork import double_fork
from headrace.processes.forkable import has_one_thread, variables_at_start
from headrace.processes.inheritance import reset
from headrace.processes.installation import import_path
from headrace.processes.method import StartMethod, start_method
from headrace.processes.order import ProcessOrder
from headrace.processes.template import PROGRAM_FAILED

_READY = b"\x01"


@dataclass(frozen=True, slots=True)
class ModuleCommand:
    """`python <options> -m <module> <arguments>`.

    module     one with `main()`, which takes its arguments from `sys.argv`; of a package, its `__main__`
    arguments  the role first: it marks the process in lists of processes
    options    of the interpreter, and of no effect but in lists of processes
    """

    module: str
    arguments: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def line(self) -> list[str]:
        """The command line."""
        return [sys.executable, *self.options, "-m", self.module, *self.arguments]

    @property
    def role(self) -> str:
        """The first argument."""
        return self.arguments[0]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a process runs. log: a file that its output is appended to, for its owner alone; environment: all of it."""

    folder: Path
    log: Path
    environment: Mapping[str, str] = field(repr=False)


def can_fork_off(environment: Mapping[str, str]) -> bool:
    """Whether a fork of this process is as good as a fresh interpreter with that environment.

    Not where polars has been loaded for this process's own use: its allocator would miss the thread that returns memory
    to the system, for as long as the fork lives.
    """
    return (
        start_method() is StartMethod.FORKSERVER
        and variables_at_start(environment) == variables_at_start(os.environ)
        and has_one_thread()
    )


def fork_off(command: ModuleCommand, where: Surroundings) -> int:
    """Forks the process and returns its pid. To be called where `can_fork_off`. Raises ExternalError, OSError."""
    log = os.open(where.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
    ready, get_ready = os.pipe()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = double_fork(lambda: _run_child(command, where, log=log, ready=get_ready))
        except OSError as error:
            raise ExternalError(f"{command.role} cannot be started: {error.strerror}", retry=True) from error
        finally:
            os.close(get_ready)
        # nothing comes where the child has ended meanwhile, as whoever waits for it will see
        os.read(ready, len(_READY))
        return pid
    finally:
        os.close(log)
        os.close(ready)


def _run_child(command: ModuleCommand, where: Surroundings, *, log: int, ready: int) -> NoReturn:
    code = PROGRAM_FAILED
    try:
        order = ProcessOrder(
            command.module, command.arguments, where.environment, stdout=log, stderr=log, keep=(ready,)
        )
        reset(order, (os.dup(ready),), path=import_path(), shown=command.line)
        os.chdir(where.folder)
        os.write(ready, _READY)
        os.close(ready)
        module = importlib.import_module(command.module)
        if hasattr(module, "__path__"):
            module = importlib.import_module(f"{command.module}.__main__")
        sys.modules["__main__"] = module
        module.main()
        code = 0
    except SystemExit as request:
        code = request.code if isinstance(request.code, int) else 0 if request.code is None else PROGRAM_FAILED
    except BaseException:  # the shell of the process: its log has it
        traceback.print_exc()
    finally:
        # pools finish what they have begun
        threading._shutdown()  # type: ignore[attr-defined]
        os._exit(code)
