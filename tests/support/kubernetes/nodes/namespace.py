"""The namespaces of a node: processes, network and mounts of its own. All that runs there ends with its first process,
which ends with this one.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from support.kubernetes.control.server_process import ENDS_WITH_PARENT, child_of
from support.kubernetes.nodes.network import NodeNetwork, run
from support.processes.running import wait_until

INSIDE = Path("/run/node")
"""The node's folder as its servers see it: paths of their sockets have at most 107 bytes."""
FIXED_FOLDERS = (Path("/var/lib/kubelet"), Path("/var/lib/cni"))
"""Folders that kubelet and network plugins write into, whatever they are told."""
_PRIVATE = (Path("/run"), Path("/var/log"), *FIXED_FOLDERS)
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""The kubelet sets them for the whole machine, unless it finds them so: it finds files with these values."""


class NodeNamespace:
    """Namespaces that are wired to the network. pause: the program that is their process 1; it reaps orphans."""

    def __init__(self, number: int, folder: Path, pause: Path, network: NodeNetwork) -> None:
        unshare = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")
        with (folder / "namespace.log").open("wb") as log:
            self._keeper = subprocess.Popen(
                [*ENDS_WITH_PARENT, *unshare, str(pause)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = child_of(self._keeper)
        wait_until(self._has_begun, f"the namespaces of node {number}")
        self._hide_machine(folder)
        network.wire(number, self.pid)
        self._connect(number, network)

    @property
    def prefix(self) -> list[str]:
        """Runs a command there, as a child."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid"]

    def run(self, *command: str) -> str:
        """Returns what a command there prints."""
        return run(*self.prefix, *command)

    def kill(self) -> None:
        """Kills all that runs there, at once. Returns when it is gone; nothing, not even a mount, is left."""
        if self._keeper.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._keeper.wait()

    def _has_begun(self) -> bool:
        """`unshare` executes the program last, after it has mounted /proc."""
        return Path(f"/proc/{self.pid}/comm").read_text().strip() == "pause"

    def _hide_machine(self, folder: Path) -> None:
        """Mounts something of its own over what the node must not change."""
        for private in _PRIVATE:
            self.run("mount", "-t", "tmpfs", "tmpfs", str(private))
        self.run("mkdir", str(INSIDE))
        self.run("mount", "--bind", str(folder), str(INSIDE))
        for name, number in _KERNEL_SETTINGS.items():
            setting = folder / name.replace("/", ".")
            setting.write_text(f"{number}\n")
            self.run("mount", "--bind", str(setting), f"/proc/sys/{name}")

    def _connect(self, number: int, network: NodeNetwork) -> None:
        commands = [
            "ip link set lo up",
            f"ip address add {network.addresses.node(number)}/24 dev eth0",
            "ip link set eth0 up",
            *(f"ip route add {route}" for route in network.node_routes(number)),
            "echo 1 >/proc/sys/net/ipv4/ip_forward",
        ]
        self.run("sh", "-ec", "\n".join(commands))
