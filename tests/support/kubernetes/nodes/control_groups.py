"""The control group of a node, in each hierarchy of version 1 or in the one of version 2."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from support.processes.running import wait_until

_MOUNTED = Path("/sys/fs/cgroup")
_SPREAD = ("cpuset.cpus", "cpuset.mems")
"""Files of version 1 that are empty in a new group, which then takes no process."""

_OWNED = re.compile(r"headrace-(\d+)-node\d+")


def make_groups(owner: int, node: str) -> str:
    """Makes a node's groups, and returns their name. owner: the pid of a process that lives as long as the cluster."""
    _remove_left()
    name = f"headrace-{owner}-{node}"
    for hierarchy in _hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in _SPREAD:
            if (hierarchy / setting).exists():
                (group / setting).write_text((hierarchy / setting).read_text())
    return name


def remove_groups(name: str) -> None:
    """Removes a node's groups and all below. Their processes were killed."""
    wait_until(lambda: _are_removed(name), f"the control groups {name} are empty")


def _remove_left() -> None:
    """Removes the groups of runs that were killed."""
    for name in {path.name for hierarchy in _hierarchies() for path in hierarchy.iterdir()}:
        owned = _OWNED.fullmatch(name)
        if owned is not None and not Path("/proc", owned[1]).exists():
            _are_removed(name)


def _are_removed(name: str) -> bool:
    """Removes groups without processes; returns whether all are gone."""
    tops = [hierarchy / name for hierarchy in _hierarchies()]
    for top in filter(Path.exists, tops):
        # children first
        for group in sorted((top, *(path for path in top.rglob("*") if path.is_dir())), reverse=True):
            with suppress(OSError):  # a process of it is still on its way out
                group.rmdir()
    return not any(map(Path.exists, tops))


def _hierarchies() -> list[Path]:
    if (_MOUNTED / "cgroup.procs").exists():
        return [_MOUNTED]
    return [path for path in _MOUNTED.iterdir() if not path.is_symlink() and (path / "cgroup.procs").exists()]
