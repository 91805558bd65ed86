"""Hosts of a small network, as network namespaces of this machine, whose wires a test may cut; and a cluster on them.

    switch namespace ── bridge `data`     wires to here (brokers), a, b       rows between slots, and Kafka
                     └─ bridge `control`  wires to here (coordinator), a, b   workers to their coordinator

`here` is where the test runs, the machine's own namespace. Hosts see nothing but the two networks: there is no way out.
A namespace goes with its last process, and takes its wires along, so whatever becomes of the test nothing stays. What
is cut is cut without a word: nobody gets a reset, and packets go nowhere. Needs root and iproute2.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest

from headrace.client.http import Client
from support.clusters.session import WORKER, Cluster
from support.patience import SHORT_CLUSTER_LEASES, WAIT_SECONDS
from support.processes.running import wait_until

HERE = "here"
DATA, CONTROL = "data", "control"
TOKEN = "a secret of tests"
_ENDS_WITH_TEST = ("setpriv", "--pdeathsig", "KILL")
_NOBODY = "02:00:00:00:00:01"


class Namespace:
    """A network namespace, held by a process that ends with the test's."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"ready\n", "a network namespace needs root and iproute2"

    @property
    def pid(self) -> int:
        """Of its keeper, which names it."""
        return self._keeper.pid

    @property
    def prefix(self) -> list[str]:
        """Puts a command into it."""
        return ["nsenter", f"--target={self.pid}", "--net"]

    def run(self, *command: str) -> str:
        """A command inside of it, to its end."""
        return _run(*self.prefix, *command)

    def close(self) -> None:
        """It goes with its last process."""
        self._keeper.communicate()


class Network:
    """The hosts `names` beside `here`, all wired."""

    def __init__(self, names: Sequence[str]) -> None:
        with ExitStack() as undo:
            self._switch = Namespace()
            undo.callback(self._switch.close)
            self.hosts = {}
            for name in names:
                self.hosts[name] = Namespace()
                undo.callback(self.hosts[name].close)
            self._subnets = dict(zip((DATA, CONTROL), free_subnets(), strict=True))
            self._places = {HERE: 1} | {name: number for number, name in enumerate(names, 11)}
            for network in self._subnets:
                self._switch.run("ip", "link", "add", network, "type", "bridge")
                self._switch.run("ip", "link", "set", network, "up")
                self._wire_here(network)
                undo.callback(_run, "ip", "link", "del", self._own_end(network))
                for name in names:
                    self._wire(name, network)
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Takes it all away; the processes on the hosts must have ended."""
        self._undo.close()

    def address(self, name: str, network: str = DATA) -> str:
        """Of a host, or of `here`."""
        return f"{self._subnets[network]}.{self._places[name]}"

    def _own_end(self, network: str) -> str:
        return f"hr{self._switch.pid}{network[0]}"

    def _wire_here(self, network: str) -> None:
        own, port = self._own_end(network), f"{HERE}-{network}"
        _run(*("ip", "link", "add", own, "type", "veth", "peer", "name", port, "netns", str(self._switch.pid)))
        self._switch.run("ip", "link", "set", port, "master", network, "up")
        _run("ip", "address", "add", f"{self.address(HERE, network)}/24", "dev", own)
        _run("ip", "link", "set", own, "up")

    def _wire(self, name: str, network: str) -> None:
        host, port = self.hosts[name], f"{name}-{network}"
        self._switch.run(*("ip", "link", "add", port, "type", "veth", "peer", "name", network, "netns", str(host.pid)))
        self._switch.run("ip", "link", "set", port, "master", network, "up")
        host.run("ip", "address", "add", f"{self.address(name, network)}/24", "dev", network)
        host.run("ip", "link", "set", network, "up")

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Hosts hear nothing of each other, but reach `here`: ports that are isolated talk to those that are not."""
        ports = [f"{name}-{network}" for name in self.hosts for network in self._subnets]
        for port in ports:
            self._switch.run("bridge", "link", "set", "dev", port, "isolated", "on")
        try:
            yield
        finally:
            for port in ports:
                self._switch.run("bridge", "link", "set", "dev", port, "isolated", "off")

    @contextmanager
    def unplugged(self, name: str, *networks: str) -> Iterator[None]:
        """The wires between a host, or `here`, and these networks are cut."""
        ports = [f"{name}-{network}" for network in networks]
        for port in ports:
            self._switch.run("ip", "link", "set", port, "down")
        try:
            yield
        finally:
            for port in ports:
                self._switch.run("ip", "link", "set", port, "up")

    @contextmanager
    def one_way(self, sender: str, receiver: str) -> Iterator[None]:
        """Rows of one host for another get lost; what comes back arrives. It has a wrong hardware address for it."""
        host, far = self.hosts[sender], self.address(receiver)
        host.run(*("ip", "neighbour", "replace", far, "lladdr", _NOBODY, "nud", "permanent", "dev", DATA))
        try:
            yield
        finally:
            host.run("ip", "neighbour", "del", far, "dev", DATA)

    @contextmanager
    def out_of_reach(self, name: str, network: str) -> Iterator[None]:
        """`here` does not reach a host on this network; the other hosts do."""
        far, own = self.address(name, network), self._own_end(network)
        _run("ip", "neighbour", "replace", far, "lladdr", _NOBODY, "nud", "permanent", "dev", own)
        try:
            yield
        finally:
            _run("ip", "neighbour", "del", far, "dev", own)

    @contextmanager
    def cut_between(self, name: str, *others: str) -> Iterator[None]:
        """One host and these others hear nothing of each other on `data`; they reach the rest."""
        with ExitStack() as cuts:
            for other in others:
                cuts.enter_context(self.one_way(name, other))
                cuts.enter_context(self.one_way(other, name))
            yield

    def connections(self, sender: str, receiver: str) -> int:
        """TCP connections that are up on one host, with the other at their far end."""
        shown = self.hosts[sender].run("ss", "-Htn", "state", "established", "dst", self.address(receiver))
        return len(shown.splitlines())


class SpreadCluster(Cluster):
    """A coordinator `here` and a worker on each host of a network, put together by hand, as the manual says."""

    def __init__(self, folder: Path, network: Network) -> None:
        super().__init__(folder, times=SHORT_CLUSTER_LEASES)
        self.network = network
        self._token_file = folder / "token"
        self._token_file.write_text(TOKEN)
        self._logs = folder / "logs"
        self._logs.mkdir()
        self._begun: list[subprocess.Popen[bytes]] = []

    def environment(self) -> Mapping[str, str]:
        """Clients find the coordinator by the home, and show the token; no proxy is asked for the way to it."""
        own = self.network.address(HERE, CONTROL)
        return {**super().environment(), "HEADRACE_TOKEN": TOKEN, "NO_PROXY": own, "no_proxy": own}

    def start(self, workers: int = 2, slots: int = 2) -> None:
        """Starts coordinator and workers, one to a host, and waits until all slots are there."""
        names = list(self.network.hosts)[:workers]
        host = self.network.address(HERE, CONTROL)
        token = ("--token-file", str(self._token_file))
        self._begin("coordinator", (), "coordinator", "--host", host, "--port", "0", "--grpc-port", "0", *token)
        document = self.home / "cluster" / "coordinator.json"
        wait_until(document.exists, "the coordinator listens")
        told = json.loads(document.read_text())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NO_PROXY", host)
            self._client = Client(told["url"], TOKEN)
        for name in names:
            place = ("--coordinator", told["grpc"], "--host", self.network.address(name))
            own = ("--id", name, "--slots", str(slots), *place, *token)
            self._begin(name, self.network.hosts[name].prefix, WORKER, *own)
        self.wait_free(workers * slots)

    def _begin(self, name: str, prefix: Sequence[str], *arguments: str) -> None:
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*_ENDS_WITH_TEST, *prefix, sys.executable, "-m", "headrace", *arguments],
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._begun.append(process)

    def stop(self) -> None:
        """SIGTERM, to the workers first."""
        for process in reversed(self._begun):
            process.terminate()
            process.wait(timeout=WAIT_SECONDS)
        self._begun.clear()

    def end(self) -> None:
        """Leaves no process of its own, whatever happened."""
        try:
            super().end()
        finally:
            for process in self._begun:
                process.kill()
                process.wait()

    def worker_of(self, name: str) -> int:
        """The pid of a host's supervisor."""
        (pid,) = (pid for pid, command in self.processes(WORKER).items() if f"--id {name} " in command)
        return pid


@contextmanager
def running_network(*names: str) -> Iterator[Network]:
    """Taken away at the end."""
    network = Network(names)
    try:
        yield network
    finally:
        network.close()


@contextmanager
def spread_cluster(folder: Path, network: Network, slots: int = 2) -> Iterator[SpreadCluster]:
    """A cluster that has started; ended at the end, and checked for what it leaves."""
    cluster = SpreadCluster(folder, network)
    try:
        cluster.start(len(network.hosts), slots)
        yield cluster
    finally:
        cluster.end()


def free_subnets() -> tuple[str, str]:
    """The `10.x.y` of two 10.x.y.0/24 that no route of this machine goes to, by chance, so that runs do not meet.

    Wide routes do not count, but for their gateways: there might be nothing left beside them.
    """
    routes = json.loads(_run("ip", "-json", "route"))
    ways = [str(route[end]) for route in routes for end in ("dst", "gateway") if end in route]
    taken = [each for each in (ip_network(way, strict=False) for way in ways if way != "default") if each.prefixlen > 8]
    draw = random.SystemRandom()
    while True:
        first = draw.randrange(10 << 8, 255 << 8, 2)
        found = tuple(f"10.{number >> 8}.{number & 255}" for number in (first, first + 1))
        if not any(each.overlaps(ip_network(f"{subnet}.0/24")) for each in taken for subnet in found):
            return found[0], found[1]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
