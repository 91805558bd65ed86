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
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil

from headrace_dev.broker.java import Java, find_java
from headrace_dev.broker.process import start_leashed
from support.hadoop.command import hadoop_command
from support.hadoop.settings import write_settings
from support.hdfs.server import run_hadoop
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
ACTIVE_AND_STANDBY = ("rm1", "rm2")
"""Ids of two ResourceManagers, of which an administrator makes one the active one."""
_SERVERS = "org.apache.hadoop.yarn.server"
_RM_MAIN = "resourcemanager.ResourceManager"
_AT_HEARTBEATS = {"yarn.scheduler.capacity.schedule-asynchronously.enable": "false"}
"""A thread that looks for free places every few milliseconds takes a thirtieth of a processor while nothing runs."""
RM_ADMIN = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"


class Restarted(ExitStack):
    """A server that a test may end and start again."""

    def __init__(self, server: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self._server = server

    def __enter__(self) -> Restarted:
        self.enter_context(self._server())
        return self

    def kill(self) -> None:
        """Kills it."""
        self.close()

    def restart(self) -> None:
        """Kills it, and starts it at the same ports."""
        self.close()
        self.enter_context(self._server())


@dataclass(frozen=True, slots=True)
class Yarn:
    """A running cluster. conf: its HADOOP_CONF_DIR; folder: what it writes, containers and their logs too; managers:
    its ResourceManagers, by the URLs of their REST APIs."""

    conf: Path
    folder: Path
    managers: Mapping[str, Restarted]

    @property
    def resource_manager(self) -> Restarted:
        """The only one."""
        (only,) = self.managers.values()
        return only

    def activate(self, number: int) -> None:
        """Makes a ResourceManager the active one, as an administrator does; the other one is dead, or a standby."""
        # the command would ask the other one, which may be dead
        command = ("-transitionToActive", "--forceactive", ACTIVE_AND_STANDBY[number])
        page = list(self.managers)[number]
        wait_until(lambda: answered(f"{page}/ws/v1/cluster/info") is not None, f"{page} answers")
        run_hadoop(self.conf, RM_ADMIN, *command)
        wait_until(lambda: self.active() == page, f"{page} is active")

    def active(self) -> str | None:
        """The URL of the ResourceManager that is active; None: none is."""
        states = {page: answered(f"{page}/ws/v1/cluster/info") for page in self.managers}
        active = [page for page, state in states.items() if state and state["clusterInfo"]["haState"] == "ACTIVE"]
        return active[0] if active else None

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of a client."""
        return {"HADOOP_CONF_DIR": str(self.conf), "JAVA_HOME": _java_home(find_java())}

    def nodes(self) -> int | None:
        """Nodes that take containers; None: nobody answers yet."""
        answer = self._ask("nodes?states=RUNNING")
        return None if answer is None else len((answer["nodes"] or {}).get("node", []))

    def node_ids(self) -> list[str]:
        """Those that take containers, `HOST:PORT`."""
        answer = self._ask("nodes?states=RUNNING")
        return [] if answer is None else sorted(each["id"] for each in (answer["nodes"] or {}).get("node", []))

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

    def attempts(self, application: str) -> int:
        """How many ApplicationMasters it has had. Logs on nodes are gone soon after its end."""
        answer = self._ask(f"apps/{application}/appattempts")
        assert answer is not None, "the resource manager answers"
        return len(answer["appAttempts"]["appAttempt"])

    def logs(self, application: str) -> str:
        """What its containers have said, for messages of tests."""
        files = sorted((self.folder / "logs").glob(f"*/{application}/*/std*"))
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-6000:]}" for path in files)

    def _ask(self, what: str) -> dict[str, Any] | None:
        pages = self.managers if len(self.managers) == 1 else filter(None, [self.active()])
        return next((answered(f"{page}/ws/v1/cluster/{what}") for page in pages), None)


def answered(url: str) -> dict[str, Any] | None:
    """The document at a URL; None: nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
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
    standby: bool = False,
    core: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    hosts: Sequence[str] = (),
) -> Iterator[Yarn]:
    """Starts it, with folders of its own below `folder`, and ends it with all that runs there.

    settings      more of yarn-site.xml
    queues        in place of the only one
    standby       there are two ResourceManagers, the first of which is active
    core          more of core-site.xml
    java_options  of all servers
    hosts         addresses of the nodes, if not `HOST`
    """
    folder.mkdir(parents=True, exist_ok=True)
    conf, java = folder / "conf", find_java()
    conf.mkdir()
    (folder / "tmp").mkdir()
    try:
        with ExitStack() as stack:
            names = ACTIVE_AND_STANDBY if standby else ("",)
            ports = {name: [stack.enter_context(reserved_port()) for _ in _RESOURCE_MANAGER] for name in names}
            pair = _high_availability(folder) if standby else {}
            site = {**_site(folder), **_addresses(ports), **pair, **(settings or {})}
            own_core = {"fs.defaultFS": "file:///", **(core or {}), "hadoop.tmp.dir": str(folder / "tmp")}
            write_settings(conf / "core-site.xml", own_core)
            write_settings(conf / "yarn-site.xml", site)
            write_settings(conf / "capacity-scheduler.xml", {**_AT_HEARTBEATS, **(queues or _queues())})
            managers = {}
            for name in names:
                own = conf if not name else _own_conf(folder, site, name, {"yarn.resourcemanager.ha.id": name})
                server = partial(_server, java, folder, own, _RM_MAIN, name or "resourcemanager", java_options)
                managers[f"http://{HOST}:{ports[name][-1]}"] = stack.enter_context(Restarted(server))
            yarn = Yarn(conf, folder, managers)
            if standby:
                yarn.activate(0)
            for number in range(nodes):
                own = _own_conf(folder, site, str(number), _of_node(folder, number, hosts[number] if hosts else HOST))
                stack.enter_context(
                    _server(java, folder, own, "nodemanager.NodeManager", f"node-{number}", java_options)
                )
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
def _server(java: Java, folder: Path, conf: Path, main: str, name: str, java_options: Sequence[str]) -> Iterator[None]:
    """One of the cluster's processes, its output in `<name>.log`."""
    options = [f"-Djava.io.tmpdir={folder / 'tmp'}", *java_options]
    command = hadoop_command(java, conf, f"{_SERVERS}.{main}", folder=folder, java_options=options)
    environment = os.environ | {"JAVA_HOME": _java_home(java), "SPARK_LOCAL_IP": HOST}
    process = start_leashed(command, data=folder, log=folder / f"{name}.log", environment=environment)
    try:
        yield
    finally:
        process.kill()  # what it has, nobody wants


def _java_home(java: Java) -> str:
    return str(java.program.resolve().parent.parent)


def _own_conf(folder: Path, site: Mapping[str, str], name: str, own: Mapping[str, str]) -> Path:
    """Settings of one server."""
    conf = folder / f"conf-{name}"
    conf.mkdir()
    for file in ("core-site.xml", "capacity-scheduler.xml"):
        (conf / file).symlink_to(folder / "conf" / file)
    write_settings(conf / "yarn-site.xml", {**site, **own})
    return conf


def _of_node(folder: Path, number: int, host: str) -> dict[str, str]:
    return {
        "yarn.nodemanager.hostname": host,
        **{f"yarn.nodemanager.{name}": f"{host}:0" for name in ("address", "localizer.address", "webapp.address")},
        "yarn.nodemanager.local-dirs": str(folder / f"local-{number}"),
        "yarn.nodemanager.log-dirs": str(folder / "logs" / str(number)),
    }


def _addresses(ports: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """The addresses of the resource managers. ports: by id, which is empty for the only one."""
    return {
        f"{setting}.{name}".rstrip("."): f"{HOST}:{port}"
        for name, own in ports.items()
        for setting, port in zip(_RESOURCE_MANAGER, own, strict=True)
    }


def _high_availability(folder: Path) -> dict[str, str]:
    """Two resource managers that share their state in a folder. Without ZooKeeper, whose client the jars of Hadoop's
    test cluster have in part only, nothing elects the active one."""
    stem = "yarn.resourcemanager"
    return {
        f"{stem}.ha.enabled": "true",
        f"{stem}.ha.automatic-failover.enabled": "false",
        f"{stem}.ha.rm-ids": ",".join(ACTIVE_AND_STANDBY),
        f"{stem}.cluster-id": "test",
        f"{stem}.recovery.enabled": "true",
        f"{stem}.store.class": f"{_SERVERS}.resourcemanager.recovery.FileSystemRMStateStore",
        f"{stem}.fs.state-store.uri": (folder / "state").as_uri(),
        f"{stem}.connect.retry-interval.ms": "500",
        **{f"{stem}.hostname.{name}": HOST for name in ACTIVE_AND_STANDBY},
    }


def _site(folder: Path) -> dict[str, str]:
    """yarn-site.xml of all, without the addresses."""
    return {
        "yarn.resourcemanager.hostname": HOST,
        # containers come quickly
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.scheduler.minimum-allocation-mb": "128",
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
