"""Forks a process of Headrace off this one, which outlives it (a daemon).

    this process ── fork (`double_fork`) ──> child: resets what it inherited ──"ready"──> runs its module
       └─ returns once the child is ready, which then shows its own command line

The child starts with this process's imports, which saves the start of an interpreter. It ends like a fork of
`multiprocessing`: without the exit handlers of the process that it was forked off.
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
from headrace.core.files.home_files import PRIVATE_FILE
from headrace.processes.forking import StartMethod, double_fork, has_one_thread, start_method, variables_at_start
from headrace.processes.installation import import_path
from headrace.processes.order import ProcessOrder
from headrace.processes.template.process import PROGRAM_FAILED, reset

_READY = b"\x01"


@dataclass(frozen=True, slots=True)
class ModuleCommand:
    """`python <options> -m <module> <arguments>`.

    module      a module with `main()`, which reads its arguments from `sys.argv`; for a package, its `__main__`
    arguments   the role first: it marks the process in lists of processes
    options     of the interpreter; shown in lists of processes, without any other effect
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
    """The surroundings of a process. folder: its working directory; log: the file for its output, with mode 0600;
    environment: its whole environment."""

    folder: Path
    log: Path
    environment: Mapping[str, str] = field(repr=False)


def can_fork_off(environment: Mapping[str, str]) -> bool:
    """Whether a fork of this process equals a fresh interpreter with that environment.

    False if this process has loaded polars for its own use: the fork's allocator would lack the thread that returns
    memory to the system.
    """
    return (
        start_method() is StartMethod.FORKSERVER
        and variables_at_start(environment) == variables_at_start(os.environ)
        and has_one_thread()
    )


def fork_off(command: ModuleCommand, where: Surroundings) -> int:
    """Forks the process and returns its pid. Requires `can_fork_off`. Raises ExternalError, OSError."""
    log = os.open(where.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
    ready, get_ready = os.pipe()
    try:
        # flushed before the fork: the child would write buffered text a second time
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = double_fork(lambda: _run_child(command, where, log=log, ready=get_ready))
        except OSError as error:
            raise ExternalError(f"{command.role} cannot be started: {error.strerror}", retry=True) from error
        finally:
            os.close(get_ready)
        # without an answer the child has ended, which the caller finds out when it waits for the process
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
        # a copy: `place_descriptors` closes all descriptors and moves the copy back to the number
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
    except BaseException:  # the shell of the process: its log has the error
        traceback.print_exc()
    finally:
        # as at a normal exit: thread pools finish their work
        threading._shutdown()  # type: ignore[attr-defined]
        os._exit(code)
