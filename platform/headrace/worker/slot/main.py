"""The process of a slot: the program `headrace.worker.slot.main headrace-slot ..`, started by a supervisor.

It is forked from a template that has called `preload`, or is a fresh interpreter (`headrace.processes`). It imports the
modules that are missing, listens for rows, sends its SlotInfo, and exits once `runtime` has run one attempt. It never
outlives its supervisor:

* It exits when the pipe closes: the supervisor is dead, or has closed it.
* It exits when no beat was sent to it for the lease: the supervisor or this process was stopped. Every step that lets
  rows out checks the lease first, so a slot that resumes too late exits before it writes.
* Linux kills it when the supervisor's thread ends, even while this process is stopped.

Threads: one reads the pipe and passes commands to the runtime; one writes to the pipe; one watches the lease; one
writes stacks to the log; the runtime has its own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import socket
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from headrace.core.concealing import conceal_standard_error
from headrace.processes.template.process import die_with_parent
from headrace.processes.template.title import replace_last_argument
from headrace.rpc import codec
from headrace.rpc.messages import Address, SlotInfo
from headrace.tls.files import TlsFiles, tls_files
from headrace.worker.lease import Lease
from headrace.worker.slot.slot_pipe import SlotPipe
from headrace.worker.slot.stacks import write_stacks_at_signals

if TYPE_CHECKING:
    from headrace.worker.slot.runtime import SlotRuntime

FAILED, SUPERVISOR_GONE, OVERRUN = 1, 71, 72
"""Exit codes, beside `lease.LEASE_EXPIRED`; 0: the attempt was left on command."""
WAITING_MAX = 65_536
"""At most this many commands wait for execution; with one more the slot exits (OVERRUN)."""
_FLUSH_SECONDS = 5.0
NO_JOB = "idle".ljust(64)
"""Placeholder in a slot's command line, over which the job's id is written in place."""


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """The command line of a slot. Times in ms.

    home    `HEADRACE_HOME`, so that tools find the processes of a home
    fd      its end of the pipe
    host    address at which it listens for rows
    folder  folder of its Unix socket
    parent  process id of the supervisor
    lost    another slot that is silent for this long is lost
    tls     files for TCP connections to other slots
    """

    slot: str
    home: Path
    fd: int
    host: str
    folder: Path
    parent: int
    heartbeat: int
    lease: int
    cancel: int
    lost: int
    tls: TlsFiles | None = None

    def arguments(self) -> list[str]:
        """The arguments for `main`."""
        given = {name: getattr(self, name) for name in SlotOptions.__slots__ if name != "tls"}
        parts = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        tls = () if self.tls is None else self.tls.arguments()
        # must be last: `replace_last_argument` writes the job's id over it in place
        return [*parts, *tls, "--job", NO_JOB]


def main(arguments: list[str]) -> NoReturn:
    """Runs a slot process from start to exit."""
    conceal_standard_error()
    parser = argparse.ArgumentParser(prog="headrace-slot")
    parser.add_argument("role", choices=["headrace-slot"])
    for name in ("fd", "parent", "heartbeat", "lease", "cancel", "lost"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("slot", "host"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("folder", "home"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("tls-cert", "tls-key", "tls-ca"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--job", required=True)
    given = vars(parser.parse_args(arguments))
    for name in ("role", "job"):
        given.pop(name)
    tls = tls_files(given.pop("tls_cert"), given.pop("tls_key"), given.pop("tls_ca"))
    options = SlotOptions(**given, tls=tls)
    # the parent is the supervisor's thread that started this process, or its main thread if a template forked it
    die_with_parent(options.parent, SUPERVISOR_GONE)
    # before the supervisor knows that the slot is up: without handlers the signals would end it
    write_stacks_at_signals(sys.stderr.fileno())
    # children of this process (started by a user's map function, say) must not hold the pipe open
    os.set_inheritable(options.fd, False)  # noqa: FBT003 - its only form
    _Slot(options).run()


class _Slot:
    """The slot's side of the pipe: commands, heartbeats and the lease."""

    def __init__(self, options: SlotOptions) -> None:
        self._options = options
        self._lease: Lease | None = None
        self._runtime: SlotRuntime | None = None
        self._pipe = SlotPipe(socket.socket(fileno=options.fd), options.heartbeat / 1_000)
        threading.Thread(target=self._read, name="slot-commands", daemon=True).start()

    def run(self) -> NoReturn:
        """Imports, listens, runs one attempt, exits."""
        _load()
        from headrace.core.files.running_calls import RunningCalls
        from headrace.exchange.network.encryption import Encryption
        from headrace.exchange.network.incoming import Listener
        from headrace.exchange.network.link import LinkTimes
        from headrace.operators.user_function import record_calls
        from headrace.worker.slot.memory_decay import start_memory_decay
        from headrace.worker.slot.runtime import SlotRuntime

        start_memory_decay()
        # TMPDIR is this slot's own; its supervisor reads the record after the end
        record_calls(RunningCalls(Path(tempfile.gettempdir())))
        options = self._options
        times = LinkTimes(ping_ms=options.heartbeat, lost_ms=options.lost)
        encryption = None if options.tls is None else Encryption(options.tls)
        listener = Listener(options.host, options.folder, times=times, encryption=encryption)
        address = Address(*listener.address)
        # The lease begins here, not at the start: importing a native library may hold the GIL for seconds, and a slot
        # without an attempt has no rows to let out.
        self._lease = lease = Lease(options.lease)
        threading.Thread(target=lease.watch, name="slot-lease", daemon=True).start()
        show_job = partial(replace_last_argument, NO_JOB)
        self._runtime = runtime = SlotRuntime(
            listener, self._pipe.send, lease=lease, cancel_grace_ms=options.cancel, on_job=show_job
        )
        self._pipe.send(codec.slot_info_bytes(SlotInfo(options.slot, os.getpid(), address)))
        runtime.left.wait()
        clean = runtime.clean
        try:
            listener.close()
        except BaseException:  # the shell of the process: the error is logged, the exit code tells the supervisor
            traceback.print_exc()
            clean = False
        self._pipe.flush(_FLUSH_SECONDS)
        sys.stdout.flush()
        sys.stderr.flush()
        # `os._exit`: threads that do not end (of a client library, say) must not keep the process alive
        os._exit(0 if clean else FAILED)

    def _read(self) -> None:
        """Reads beats and commands until the pipe closes, then exits the process."""
        while (frame := self._pipe.receive()) is not None:
            if frame.message:
                assert self._runtime is not None, "no command comes before the SlotInfo"
                self._runtime.receive(frame.message)
                if self._runtime.waiting > WAITING_MAX:
                    os._exit(OVERRUN)
            elif self._lease is not None:
                self._lease.renew(frame.sent_ns)
        os._exit(SUPERVISOR_GONE)


def preload() -> None:
    """Imports the modules that every attempt needs. Starts no thread, opens no socket, runs no query: it forks next."""
    from headrace.connect import registry

    importlib.import_module("headrace.worker.slot.preload")
    registry.load_bundled()


def _load() -> None:
    """Imports all modules, third-party connectors included, so that an attempt does not wait for imports."""
    from headrace.connect import registry

    preload()
    for name in registry.connector_names():
        try:
            registry.connector(name)
        except Exception as error:  # a third-party connector that does not load fails only the jobs that use it
            print(f"connector {name}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - its log


if __name__ == "__main__":
    main(sys.argv[1:])
