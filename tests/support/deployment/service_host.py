"""A host with files, processes and a systemd of its own, on which commands of a page run as they are written.

The machine's systemd is process 1 of new namespaces, so units run with the users, limits, directories and signals that
they name. Its root is this machine's, overlaid: a change is the host's alone, and goes with it. It sees no unit of this
machine but targets, so nothing runs besides what a test installs. Kernel settings are read-only, /tmp is empty but for
the test's folder. Needs root, and systemd's program.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.patience import WAIT_SECONDS
from support.processes.running import wait_until
from support.repository import ROOT

SYSTEMD = Path("/lib/systemd/systemd")
_ENDS_WITH_TEST = ("setpriv", "--pdeathsig", "KILL")
_LAYERS = """
set -e
mount -t tmpfs tmpfs {layers}
mkdir {layers}/new {layers}/work {layers}/root {layers}/cgroup
mount -t overlay overlay -o lowerdir=/,upperdir={layers}/new,workdir={layers}/work {layers}/root
mount -t cgroup2 cgroup2 {layers}/cgroup
group={layers}/cgroup/headrace-test-$$
mkdir $group
echo $$ > $group/cgroup.procs
{ends_with_test} unshare --mount --cgroup --pid --fork --kill-child sh -c "$1" || true
echo $$ > {layers}/cgroup/cgroup.procs
find $group -depth -type d -exec rmdir {{}} +
"""
"""Run by the host's keeper. The group's processes are those of the host: what systemd counts and kills."""
_BOOT = """
set -e
read pid others < /proc/self/stat
cd {layers}/root
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
# systemd mounts a file system here if there is none, over what the test has
mkdir dev/shm
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p ./{work}
mount --bind {work} ./{work}
# those on a file system of their own
for folder in {interpreter}; do
    [ -e .$folder ] || {{ mkdir -p .$folder && mount --bind -o ro $folder .$folder; }}
done
mount -t tmpfs tmpfs etc/systemd
mkdir -p etc/systemd/system run/systemd/system/service.d
mkdir targets
cp usr/lib/systemd/system/*.target targets
mount -t tmpfs tmpfs usr/lib/systemd/system
mount -t tmpfs tmpfs usr/lib/systemd/system-generators
cp targets/*.target usr/lib/systemd/system
echo {machine_id} > etc/machine-id
echo {name} > etc/hostname
cd run/systemd/system/service.d
printf '[Service]\\nStandardOutput=append:{logs}/%%n.log\\nStandardError=inherit\\n' > log.conf
cd {layers}/root
[ -z '{readable}' ] || chmod a+rx {readable}
pivot_root . targets
umount -l /targets
echo $pid
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 container=test {systemd} \
    --system --unit=multi-user.target --log-target=null --show-status=no
"""
_NAMESPACES = ("net", "mount", "uts", "ipc", "pid", "cgroup")


class ServiceHost:
    """prefix: puts a command into its network namespace; work: where commands are given; folder: in it, for logs."""

    def __init__(self, name: str, prefix: Sequence[str], folder: Path, work: Path) -> None:
        assert SYSTEMD.exists(), (
            "no systemd on this machine (Debian: apt install systemd; it need not be what has booted)"
        )
        self.name = name
        self._work = work
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True)
        layers = folder / "layers"
        layers.mkdir()
        scripts = _scripts(name, layers=layers, work=work, logs=self._logs)
        self._keeper = subprocess.Popen(
            [
                *_ENDS_WITH_TEST,
                *prefix,
                "unshare",
                "--mount",
                "--uts",
                "--ipc",
                "sh",
                "-c",
                scripts[0],
                "sh",
                scripts[1],
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        pid = self._keeper.stdout.readline()
        assert pid, "a host with a systemd of its own needs root"
        self._init = int(pid)
        # the way of commands to systemd
        wait_until((self.root / "run/systemd/private").exists, f"systemd of {name} listens")

    @property
    def root(self) -> Path:
        """Its files, as this process sees them."""
        return Path(f"/proc/{self._init}/root")

    @property
    def prefix(self) -> list[str]:
        """Puts a command onto it."""
        return ["nsenter", f"--target={self._init}", *(f"--{each}" for each in _NAMESPACES)]

    def install(self, version: str, packages: Path | None) -> None:
        """Puts `headrace` into /opt/headrace-<version>, as a virtual environment there has it.

        packages: a folder with another version than the one of this repository.
        """
        folder = self.root / f"opt/headrace-{version}"
        (folder / "bin").mkdir(parents=True)
        python_path = ""
        if packages is not None:
            shutil.copytree(packages, folder / "lib")
            # the folder of a test is its owner's alone
            (folder / "lib").chmod(0o755)
            python_path = f"PYTHONPATH=/opt/headrace-{version}/lib "
        program = folder / "bin/headrace"
        program.write_text(f'#!/bin/sh\n{python_path}exec {sys.executable} -m headrace "$@"\n')
        program.chmod(0o755)

    def set(self, variables: Mapping[str, str]) -> None:
        """Puts variables into the file that the units read, in place of those that it has."""
        file = self.root / "etc/headrace/headrace.env"
        lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in variables]
        file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in variables.items())]) + "\n")

    def run(self, command: str) -> str:
        """A command of a page, by root's shell. Returns what it prints."""
        done = subprocess.run(
            [*self.prefix, "bash", "-c", f"cd {self._work} && {command}"],
            env={"PATH": f"/usr/local/bin:{os.environ['PATH']}", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{self.name}# {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def shown(self, unit: str, name: str) -> str:
        """A property of a unit, such as `MainPID`."""
        return self.run(f"systemctl show --property={name} --value {unit}").strip()

    def log(self, unit: str) -> str:
        """What a unit has logged."""
        return (self._logs / f"{unit}.service.log").read_text()

    def close(self) -> None:
        """It is gone, as a host that loses power: its processes are killed, its files lost."""
        os.kill(self._init, signal.SIGKILL)
        self._keeper.communicate(timeout=WAIT_SECONDS)


def _scripts(name: str, *, layers: Path, work: Path, logs: Path) -> tuple[str, str]:
    places = {"layers": layers, "work": work, "logs": logs, "systemd": SYSTEMD, "name": name}
    # a service's user reads this repository and its Python wherever they are
    interpreter = (ROOT, Path(sys.prefix), Path(sys.base_prefix).resolve())
    fields = {
        **places,
        "interpreter": " ".join(map(str, interpreter)),
        "readable": " ".join(sorted({f".{each}" for path in interpreter for each in path.parents[:-1]})),
        "machine_id": "0" * 31 + "1",
        "ends_with_test": " ".join(_ENDS_WITH_TEST),
    }
    return _LAYERS.format(**fields), _BOOT.format(**fields)
