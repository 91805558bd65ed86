"""Forks a process of our own off this one, which outlives it.

    this process ── fork ──> middle ── fork ──> child: resets what it inherited, and runs its module
       │                       └─ sends the child's pid and exits: the child is nobody's
       └─ returns once the child shows its own command line

The child begins with what this process has imported: an interpreter less to start. It ends as a fork of
`multiprocessing` does: without the exit handlers of the process that it was forked off.
"""

from __future__ import annotations

import importlib
import os
import struct
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from headrace.core.errors import ExternalError
from headrace.processes.forkable import has_one_thread, variables_at_start
from headrace.processes.inheritance import reset
from headrace.processes.installation import import_path
from headrace.processes.method import StartMethod, start_method
from headrace.processes.order import ProcessOrder
from headrace.processes.template import PROGRAM_FAILED, quiet_fork

_PID = struct.Struct(">i")
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
    """Where a process runs. log: a file that its output is appended to; environment: all of it."""

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
    log = os.open(where.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    # two pipes: the child may be ready before the middle has sent its pid
    told, tell = os.pipe()
    ready, get_ready = os.pipe()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        middle = quiet_fork()
        if middle == 0:
            _run_middle(command, where, log=log, tell=tell, ready=get_ready)
        os.close(tell)
        os.close(get_ready)
        answer = os.read(told, _PID.size)
        os.waitpid(middle, 0)
        pid = int(_PID.unpack(answer)[0]) if len(answer) == _PID.size else -1
        if pid < 0:
            raise ExternalError(f"{command.role} cannot be started: no process can be forked", retry=True)
        # nothing comes where the child has ended meanwhile, as whoever waits for it will see
        os.read(ready, len(_READY))
        return pid
    finally:
        for descriptor in (log, told, ready):
            os.close(descriptor)


def _run_middle(command: ModuleCommand, where: Surroundings, *, log: int, tell: int, ready: int) -> NoReturn:
    try:
        child = quiet_fork()
    except OSError:
        child = -1
    if child == 0:
        _run_child(command, where, log=log, ready=ready)
    os.write(tell, _PID.pack(child))
    os._exit(0)


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
