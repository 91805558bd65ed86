"""What nodes need of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from support.kubernetes.nodes.namespace import FIXED_FOLDERS
from support.kubernetes.nodes.settings import CNI
from support.kubernetes.programs.recipe import NODE
from support.kubernetes.programs.requirements import require_binaries
from support.missing_tool import skip_or_fail
from support.patience import WAIT_SECONDS

PROGRAMS = ("containerd", "ctr", "runc", "iptables", "ip", "unshare", "nsenter", "setpriv")
PLUGINS = ("bridge", "host-local", "loopback", "portmap")
_REMEDY = (
    "install them (Debian: apt install containerd runc containernetworking-plugins iptables iproute2), "
    "or run the tests by .ci/run, which does"
)
_TRY = ("unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt")


def require_nodes() -> Path:
    """Returns the folder with the programs of a cluster with nodes. Skips or fails the test where something is missing.

    Waits for programs while another process builds them.
    """
    if trouble := _trouble():
        skip_or_fail(f"nodes of Kubernetes cannot run here: {trouble}")
    # where Debian puts them; not everybody's path leads there
    os.environ["PATH"] = _path()
    return require_binaries(NODE)


@contextmanager
def private_folders() -> Iterator[None]:
    """Folders for nodes to mount something over are there; those that were not before are removed at the end."""
    made = [folder for folder in FIXED_FOLDERS if not folder.exists()]
    for folder in made:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for folder in made:
            with suppress(OSError):  # another cluster has it mounted
                folder.rmdir()


@cache
def _trouble() -> str:
    """Why not; empty: they can."""
    if os.geteuid() != 0:
        return "only root makes namespaces, mounts and control groups"
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    missing += [f"{CNI / name}" for name in PLUGINS if not (CNI / name).exists()]
    if missing:
        return f"{', '.join(missing)} not installed; {_REMEDY}"
    tried = subprocess.run(_TRY, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)
    return "" if tried.returncode == 0 else f"this machine's kernel or container refuses: {tried.stderr.strip()}"


def _path() -> str:
    own = os.environ.get("PATH", os.defpath)
    return own if "/usr/sbin" in own.split(os.pathsep) else f"{own}:/usr/sbin:/sbin"
