"""Two NameNodes of one name service, of which one is active, and a DataNode: the active one is chosen by a command, as
an administrator does. They share the log of edits in a folder."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.hadoop.settings import write_settings
from support.hdfs.cluster import SUPERUSER, bean
from support.hdfs.server import DATA_NODE, HA_ADMIN, NAME_NODE, Server, run_hadoop
from support.hdfs.site import HOST, common
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until
from support.reserved_port import reserved_port

SERVICE = "prod"
NODES = ("nn1", "nn2")
_AUTOMATIC = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"


@dataclass(frozen=True, slots=True)
class NameNodePair:
    """conf: HADOOP_CONF_DIR of clients; by name: RPC and HTTP addresses, servers."""

    conf: Path
    rpc: Mapping[str, str]
    pages: Mapping[str, str]
    servers: Mapping[str, Server]

    def environment(self) -> Mapping[str, str]:
        """By which clients find it."""
        return {"HADOOP_CONF_DIR": str(self.conf), "HADOOP_USER_NAME": SUPERUSER}

    def url(self, path: str) -> str:
        return f"hdfs://{SERVICE}/{path}"

    def activate(self, name: str) -> None:
        """Makes a standby the active one; nobody else may be it. Waits until it has a DataNode and no safe mode."""
        # the command would ask the other one, which may be dead
        run_hadoop(self.conf, HA_ADMIN, "-transitionToActive", "--forceactive", name)
        wait_until(lambda: self._serves(name), f"{name} serves: see {self.servers[name].log}")

    def stand_by(self, name: str) -> None:
        """Makes the active one a standby."""
        run_hadoop(self.conf, HA_ADMIN, "-transitionToStandby", name)

    def wait_answering(self, name: str) -> None:
        """Returns when a NameNode accepts commands, which it does after requests for its state."""
        wait_until(lambda: _accepts(self.rpc[name]), f"{name} answers: see {self.servers[name].log}")

    def _serves(self, name: str) -> bool:
        state = self._state(name)
        return state is not None and state["NumLiveDataNodes"] == 1 and state["FSState"] == "Operational"

    def _state(self, name: str) -> Mapping[str, object] | None:
        return bean(self.pages[name], "NameNode", "FSNamesystemState")


@contextmanager
def name_node_pair(folder: Path) -> Iterator[NameNodePair]:
    """Starts them below `folder`, the first one active; kills them at the end."""
    with ExitStack() as stack:
        ports = [stack.enter_context(reserved_port()) for _ in range(2 * len(NODES))]
        rpc = {name: f"{HOST}:{port}" for name, port in zip(NODES, ports, strict=False)}
        pages = {name: f"{HOST}:{port}" for name, port in zip(NODES, ports[len(NODES) :], strict=True)}
        site = _site(folder, rpc, pages)
        confs = {name: _conf(folder, name, {**site, "dfs.ha.namenode.id": name}) for name in NODES}
        conf = _conf(folder, "client", site)
        servers = {name: Server(confs[name], NAME_NODE, folder / f"{name}.log") for name in NODES}
        data_node = Server(conf, DATA_NODE, folder / "data-node.log")
        for server in (*servers.values(), data_node):
            stack.callback(server.kill)
        pair = NameNodePair(conf, rpc, pages, servers)
        run_hadoop(confs["nn1"], NAME_NODE, "-format", "-nonInteractive")
        servers["nn1"].start()
        data_node.start()
        pair.wait_answering("nn1")
        pair.activate("nn1")
        # copies the image of the first one
        run_hadoop(confs["nn2"], NAME_NODE, "-bootstrapStandby", "-nonInteractive")
        servers["nn2"].start()
        pair.wait_answering("nn2")
        yield pair


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), WAIT_SECONDS):
            return True
    except OSError:
        return False


def _site(folder: Path, rpc: Mapping[str, str], pages: Mapping[str, str]) -> dict[str, str]:
    own = "dfs.namenode"
    return {
        **common(folder),
        "dfs.nameservices": SERVICE,
        f"dfs.ha.namenodes.{SERVICE}": ",".join(NODES),
        **{f"{own}.rpc-address.{SERVICE}.{name}": address for name, address in rpc.items()},
        **{f"{own}.http-address.{SERVICE}.{name}": page for name, page in pages.items()},
        **{f"{own}.name.dir.{SERVICE}.{name}": str(folder / f"name-{name}") for name in NODES},
        f"{own}.shared.edits.dir": (folder / "edits").as_uri(),
        f"dfs.client.failover.proxy.provider.{SERVICE}": _AUTOMATIC,
        # an administrator chooses the active one, and sees that nobody else is
        "dfs.ha.fencing.methods": "shell(/bin/true)",
    }


def _conf(folder: Path, name: str, site: Mapping[str, str]) -> Path:
    conf = folder / f"conf-{name}"
    conf.mkdir(parents=True)
    core = {"fs.defaultFS": f"hdfs://{SERVICE}", "hadoop.tmp.dir": str(folder / "tmp")}
    write_settings(conf / "core-site.xml", core)
    write_settings(conf / "hdfs-site.xml", site)
    return conf
