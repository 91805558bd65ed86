"""A YARN cluster on loopback: a ResourceManager and NodeManagers as Hadoop ships them, processes of their own that end
with this one, whatever becomes of it; containers that are left are ended by pid.
"""

from __future__ import annotations

import contextlib
import json
import os
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil

from headrace_dev.broker.java import Java, find_java
from headrace_dev.broker.process import start_leashed
from support.hadoop.command import hadoop_command
from support.hadoop.settings import write_settings
from support.processes.running import WAIT_SECONDS, wait_until
from support.reserved_port import reserved_port
from support.spark.settings import SPARK_SECONDS

HOST = "127.0.0.1"
NODE_MEMORY_MB = 6144
NODE_CORES = 4
_RESOURCE_MANAGER = tuple(
    f"yarn.resourcemanager.{name}"
    for name in ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
)
"""Its addresses."""
_SERVERS = "org.apache.hadoop.yarn.server"
_RM_MAIN = "resourcemanager.ResourceManager"


class Restarted(ExitStack):
    """A server that a test may end and start again."""

    def __init__(self, server: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self._server = server

    def __enter__(self) -> Restarted:
        self.enter_context(self._server())
        return self

    def restart(self) -> None:
        """Kills it, and starts it at the same ports."""
        self.close()
        self.enter_context(self._server())


@dataclass(frozen=True, slots=True)
class Yarn:
    """A running cluster. conf: its HADOOP_CONF_DIR; folder: what it writes, containers and their logs too; page: URL of
    its REST API."""

    conf: Path
    folder: Path
    page: str
    resource_manager: Restarted

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of a client."""
        return {"HADOOP_CONF_DIR": str(self.conf), "JAVA_HOME": _java_home(find_java())}

    def nodes(self) -> int | None:
        """Nodes that take containers; None: nobody answers yet."""
        answer = self._ask("nodes?states=RUNNING")
        return None if answer is None else len((answer["nodes"] or {}).get("node", []))

    def applications(self) -> list[dict[str, Any]]:
        """All of them, oldest first: id, state, finalStatus, diagnostics, runningContainers ..."""
        answers: list[dict[str, Any]] = []

        def answered() -> bool:
            answer = self._ask("apps")
            answers.extend([] if answer is None else [answer])
            return bool(answers)

        wait_until(answered, "the resource manager answers")
        return sorted((answers[0]["apps"] or {}).get("app", []), key=lambda app: str(app["id"]))

    def processes(self, main: str) -> list[psutil.Process]:
        """Java processes of containers with this main class, or another word of their command lines."""
        found = []
        for process in containers_below(self.folder):
            with contextlib.suppress(psutil.NoSuchProcess):
                command = process.cmdline()
                if command[:1] and command[0].endswith("java") and any(main in word for word in command):
                    found.append(process)
        return found

    def logs(self, application: str) -> str:
        """What its containers have said, for messages of tests."""
        files = sorted((self.folder / "logs").glob(f"*/{application}/*/std*"))
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-6000:]}" for path in files)

    def _ask(self, what: str) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"{self.page}/ws/v1/cluster/{what}", timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, HTTPException):
            return None


@contextmanager
def yarn_cluster(
    folder: Path,
    *,
    nodes: int = 1,
    settings: Mapping[str, str] | None = None,
    queues: Mapping[str, str] | None = None,
) -> Iterator[Yarn]:
    """Starts it, with folders of its own below `folder`, and ends it with all that runs there. settings: more of
    yarn-site.xml; queues: in place of the only one."""
    folder.mkdir(parents=True, exist_ok=True)
    conf, java = folder / "conf", find_java()
    conf.mkdir()
    (folder / "tmp").mkdir()
    try:
        with ExitStack() as stack:
            ports = [stack.enter_context(reserved_port()) for _ in _RESOURCE_MANAGER]
            site = {**_site(folder, ports), **(settings or {})}
            write_settings(conf / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(folder / "tmp")})
            write_settings(conf / "yarn-site.xml", site)
            write_settings(conf / "capacity-scheduler.xml", queues or _queues())
            page = f"http://{site['yarn.resourcemanager.webapp.address']}"
            with_manager = Restarted(lambda: _server(java, folder, conf, _RM_MAIN, "resourcemanager"))
            yarn = Yarn(conf, folder, page, stack.enter_context(with_manager))
            for number in range(nodes):
                own = _own_conf(folder, site, number)
                stack.enter_context(_server(java, folder, own, "nodemanager.NodeManager", f"node-{number}"))
            wait_until(lambda: yarn.nodes() == nodes, f"{nodes} nodes are there: see {folder}/*.log", SPARK_SECONDS)
            yield yarn
    finally:
        _end(containers_below(folder))


def containers_below(folder: Path) -> list[psutil.Process]:
    """Processes that work below the nodes' folders: containers, and what they have started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, OSError):
            if process.cwd().startswith(f"{folder}{os.sep}local"):
                found.append(process)
    return found


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=WAIT_SECONDS)


@contextmanager
def _server(java: Java, folder: Path, conf: Path, main: str, name: str) -> Iterator[None]:
    """One of the cluster's processes, its output in `<name>.log`."""
    command = hadoop_command(
        java, conf, f"{_SERVERS}.{main}", folder=folder, java_options=[f"-Djava.io.tmpdir={folder / 'tmp'}"]
    )
    environment = os.environ | {"JAVA_HOME": _java_home(java), "SPARK_LOCAL_IP": HOST}
    process = start_leashed(command, data=folder, log=folder / f"{name}.log", environment=environment)
    try:
        yield
    finally:
        process.kill()  # what it has, nobody wants


def _java_home(java: Java) -> str:
    return str(java.program.resolve().parent.parent)


def _own_conf(folder: Path, site: Mapping[str, str], number: int) -> Path:
    """Settings of one node."""
    conf = folder / f"conf-{number}"
    conf.mkdir()
    (conf / "core-site.xml").symlink_to(folder / "conf" / "core-site.xml")
    own = {
        "yarn.nodemanager.local-dirs": str(folder / f"local-{number}"),
        "yarn.nodemanager.log-dirs": str(folder / "logs" / str(number)),
    }
    write_settings(conf / "yarn-site.xml", {**site, **own})
    return conf


def _site(folder: Path, ports: Sequence[int]) -> dict[str, str]:
    """yarn-site.xml of all. ports: of the resource manager's addresses."""
    return {
        "yarn.resourcemanager.hostname": HOST,
        **{name: f"{HOST}:{port}" for name, port in zip(_RESOURCE_MANAGER, ports, strict=True)},
        # containers come quickly
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.nodemanager.hostname": HOST,
        "yarn.nodemanager.address": f"{HOST}:0",
        "yarn.nodemanager.localizer.address": f"{HOST}:0",
        "yarn.nodemanager.webapp.address": f"{HOST}:0",
        "yarn.nodemanager.resource.memory-mb": str(NODE_MEMORY_MB),
        "yarn.nodemanager.resource.cpu-vcores": str(NODE_CORES),
        # Python with Arrow maps much more than it uses: nodes that count that can run no such thing
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        # what containers have of their node's environment
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,SPARK_LOCAL_IP",
        "yarn.resourcemanager.am.max-attempts": "10",
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": str(folder / "aggregated"),
    }


def _queues() -> dict[str, str]:
    stem = "yarn.scheduler.capacity"
    return {
        f"{stem}.root.queues": "default",
        f"{stem}.root.default.capacity": "100",
        # one application's driver may take as much as it asks for
        f"{stem}.maximum-am-resource-percent": "1.0",
    }
