"""The cluster of one job, or of one program, on several hosts: the same command on each. Hosts are homes of this
machine, with all of their processes and their temporary files."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from support.clusters.session import COORDINATOR, kill
from support.clusters.standbys import StandbyCluster


@dataclass(frozen=True, slots=True)
class OwnHost:
    """printed: by its command; home, temporary: folders that are lost with it."""

    printed: str
    home: Path
    temporary: frozenset[Path]

    def processes(self, cluster: StandbyCluster, role: str = "") -> list[int]:
        """Those of its home."""
        own = os.fsencode(f"HEADRACE_HOME={self.home}")
        found = cluster.processes(role)
        return [pid for pid in found if own in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]


def join(cluster: StandbyCluster, file: str, mode: str, *arguments: str) -> OwnHost:
    """Runs the command of one more host."""
    homes, temporary = set(cluster.home.glob("clusters/*")), set(cluster.temporary.iterdir())
    election = ("--parallelism", "2", "--ha", cluster.election)
    done = cluster.headrace("submit", file, "--mode", mode, *election, *arguments)
    assert done.code == 0, done.err
    (home,) = set(cluster.home.glob("clusters/*")) - homes
    # the first of them has made the cluster's token
    shutil.copy(home / "cluster" / "token", cluster.token_file)
    return OwnHost(done.out.strip(), home, frozenset(set(cluster.temporary.iterdir()) - temporary))


def lose_leader(cluster: StandbyCluster, hosts: list[OwnHost]) -> OwnHost:
    """Kills every process of the leader's host; gives it."""
    term = cluster.term()
    lost = next(host for host in hosts if cluster.leader() in host.processes(cluster, COORDINATOR))
    kill(*lost.processes(cluster))
    for folder in lost.temporary:
        shutil.rmtree(folder)
    cluster.wait_later_term(term)
    return lost
