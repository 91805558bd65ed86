"""HDFS on loopback: a NameNode and a DataNode as Hadoop ships them, with WebHDFS."""

from __future__ import annotations

import getpass
import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote, urlencode

from support.certificates import Issued
from support.hadoop.settings import write_settings
from support.hdfs.server import ADMIN, DATA_NODE, NAME_NODE, Server, run_hadoop
from support.hdfs.site import HOST, common
from support.hdfs.tls import tls_settings
from support.processes.running import wait_until
from support.reserved_port import reserved_port

SUPERUSER = getpass.getuser()
"""The user that started the NameNode."""


@dataclass(frozen=True, slots=True)
class Hdfs:
    """A running file system, maybe of another process. conf: its HADOOP_CONF_DIR; authority: of its `hdfs://` URLs;
    page: the NameNode's HTTP address, host and port."""

    conf: Path
    authority: str
    page: str

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Hdfs:
        """The one that another process has described."""
        return Hdfs(Path(str(document["conf"])), str(document["authority"]), str(document["page"]))

    def document(self) -> Mapping[str, object]:
        """What another process needs to use it."""
        return {"conf": str(self.conf), "authority": self.authority, "page": self.page}

    def url(self, path: str) -> str:
        """An `hdfs://` URL, which takes `environment` to be found."""
        return f"hdfs://{self.authority}/{path}"

    def web_url(self, path: str) -> str:
        """The same place, by the NameNode's HTTP address."""
        return f"webhdfs://{self.page}/{path}"

    def environment(self) -> Mapping[str, str]:
        """By which clients find it."""
        return {"HADOOP_CONF_DIR": str(self.conf), "HADOOP_USER_NAME": SUPERUSER}

    def ask(self, method: str, path: str, op: str, *, user: str = SUPERUSER, **parameters: str) -> dict[str, object]:
        """A request of the superuser, or of another user; returns the answer's document."""
        query = urlencode({"op": op, "user.name": user, **parameters})
        request = urllib.request.Request(f"http://{self.page}/webhdfs/v1{quote(path)}?{query}", method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            found: dict[str, object] = json.loads(text) if text else {}
            return found


@dataclass(frozen=True, slots=True)
class HdfsServers(Hdfs):
    """One whose servers this process has. tls_page: the NameNode's HTTPS address, where it has one."""

    tls_page: str
    name_node: Server
    data_node: Server

    def admin(self, *arguments: str) -> str:
        """Runs `hdfs dfsadmin`."""
        return run_hadoop(self.conf, ADMIN, *arguments)

    def blocks_synced(self) -> int:
        """How many blocks and files the DataNode has synced since it started."""
        state = bean(self.page, "NameNode", "NameNodeInfo")
        assert state is not None
        (node,) = json.loads(str(state["LiveNodes"])).values()
        metrics = bean(node["infoAddr"], "DataNode", "DataNodeActivity*")
        return 0 if metrics is None else int(str(metrics["FsyncCount"]))

    def wait_ready(self) -> None:
        """Returns when a DataNode is there and the NameNode is not in safe mode."""
        wait_until(lambda: is_ready(self.page), f"HDFS is ready: see {self.name_node.log} and {self.data_node.log}")


def is_ready(page: str) -> bool:
    """Whether a NameNode has a DataNode, and has left safe mode."""
    state = bean(page, "NameNode", "FSNamesystemState")
    return state is not None and state["NumLiveDataNodes"] == 1 and state["FSState"] == "Operational"


def bean(page: str, service: str, name: str) -> Mapping[str, object] | None:
    """What a server says of itself; None: nobody answers yet."""
    query = f"Hadoop:service={service},name={name}"
    try:
        with urllib.request.urlopen(f"http://{page}/jmx?qry={query}", timeout=30) as answer:
            beans: list[dict[str, object]] = json.load(answer)["beans"]
    except (OSError, HTTPException):
        return None
    return beans[0] if beans else None


@contextmanager
def hdfs_cluster(folder: Path, issued: Issued | None = None) -> Iterator[HdfsServers]:
    """Starts it below `folder`, and kills it at the end. issued: a certificate, to be reached by TLS as well."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    with ExitStack() as stack:
        rpc, http, https = (stack.enter_context(reserved_port()) for _ in range(3))
        authority, page = f"{HOST}:{rpc}", f"{HOST}:{http}"
        write_settings(
            conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{authority}", "hadoop.tmp.dir": str(folder / "tmp")}
        )
        write_settings(
            conf / "hdfs-site.xml",
            {
                **common(folder),
                "dfs.namenode.name.dir": str(folder / "name"),
                "dfs.namenode.http-address": page,
                **({} if issued is None else tls_settings(conf, issued, https)),
            },
        )
        run_hadoop(conf, NAME_NODE, "-format", "-nonInteractive")
        name_node = Server(conf, NAME_NODE, folder / "name-node.log")
        data_node = Server(conf, DATA_NODE, folder / "data-node.log")
        hdfs = HdfsServers(conf, authority, page, f"{HOST}:{https}", name_node, data_node)
        for server in (name_node, data_node):
            stack.callback(server.kill)
            server.start()
        hdfs.wait_ready()
        yield hdfs
