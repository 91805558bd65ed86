"""A container that runs programs of this machine, on networks of its own: started, killed, paused, cut off."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from docker.errors import APIError
from testcontainers.core.container import DockerContainer

from support.containers.container_network import ContainerNetwork
from support.containers.engine import ENGINE_SETTINGS
from support.containers.machine_image import machine_image
from support.machine_root import machine_environment, machine_folders
from support.processes.running import WAIT_SECONDS, wait_until

STOP_SECONDS = int(WAIT_SECONDS)
_WHEN_WIRED = 'for at in $1; do until grep -qw "$at" /proc/net/fib_trie; do sleep 0.05; done; done; shift; exec "$@"'


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """What is to run, and where.

    name      of the host, which the others on its networks find it by
    networks  the first one is wired before it starts, and has the published ports
    folders   writable, at the same path inside
    files     only to be read
    ports     inside -> on this machine, at `here` of the first network
    """

    name: str
    command: Sequence[str]
    networks: Sequence[ContainerNetwork]
    environment: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[Path] = ()
    files: Sequence[Path] = ()
    ports: Mapping[int, int] = field(default_factory=dict)


class MachineContainer:
    """The live half. Runs as this test's user, so that what it writes can be removed again."""

    def __init__(self, config: ContainerConfig) -> None:
        self.config = config
        self._container = _described(config)
        self._is_made = False

    @property
    def name(self) -> str:
        """Of the host."""
        return self.config.name

    def start(self) -> None:
        """For the first time, or again after a kill or stop: with the same addresses and files."""
        if self._is_made:
            self._container.get_wrapped_container().start()
            return
        self._container.start()
        self._is_made = True
        for network in self.config.networks[1:]:
            network.connect(self._container.get_container_id(), self.name)

    def kill(self) -> None:
        """SIGKILL for all that runs in it; returns when it is gone."""
        inner = self._container.get_wrapped_container()
        inner.kill(signal="SIGKILL")
        inner.wait(timeout=STOP_SECONDS)

    def stop(self) -> int:
        """SIGTERM, and the exit code of what ran; 0 where nothing did. SIGKILL after 4 minutes."""
        if not self._is_made:
            return 0
        inner = self._container.get_wrapped_container()
        inner.stop(timeout=STOP_SECONDS)
        return int(inner.wait(timeout=STOP_SECONDS)["StatusCode"])

    def pause(self) -> None:
        """All of its processes stand still. Connections stay."""
        # the kernel does not freeze what waits for a disk, and the engine does not wait for it for long
        wait_until(self._is_frozen_now, f"container {self.name} stands still")

    def unpause(self) -> None:
        """They go on, and know nothing of it."""
        self._container.get_wrapped_container().unpause()

    def disconnect(self, network: ContainerNetwork | None = None) -> None:
        """Cuts it off one network, or all."""
        for each in self.config.networks if network is None else (network,):
            each.disconnect(self._container.get_container_id())

    def connect(self, network: ContainerNetwork | None = None) -> None:
        """Heals that; it has its old addresses."""
        for each in self.config.networks if network is None else (network,):
            each.connect(self._container.get_container_id(), self.name)

    def is_running(self) -> bool:
        """Also while it is paused."""
        if not self._is_made:
            return False
        self._container.reload()
        return self._container.status in {"running", "paused"}

    def is_paused(self) -> bool:
        """Whether it stands still."""
        self._container.reload()
        return bool(self._container.status == "paused")

    def log(self) -> str:
        """What it has printed; empty where it never started."""
        return "".join(part.decode(errors="replace") for part in self._container.get_logs()) if self._is_made else ""

    def remove(self) -> None:
        """Kills what runs, and leaves nothing but files in its folders."""
        self._container.stop()
        self._is_made = False

    def _is_frozen_now(self) -> bool:
        try:
            self._container.get_wrapped_container().pause()
        except APIError as error:
            if "unable to freeze" not in str(error):
                raise
            return False
        return True


def _described(config: ContainerConfig) -> DockerContainer:
    container = DockerContainer(machine_image(), docker_client_kw=ENGINE_SETTINGS)
    for folder in machine_folders():
        container.with_volume_mapping(folder, str(folder))
    for file in config.files:
        container.with_volume_mapping(file, str(file))
    for folder in config.folders:
        folder.mkdir(parents=True, exist_ok=True)
        container.with_volume_mapping(folder, str(folder), "rw")
    for inside, here in config.ports.items():
        # the engine publishes on the network whose name comes first; the address stays
        container.ports[str(inside)] = (config.networks[0].here, here)  # type: ignore[assignment]  # too narrow
    # connecting to further networks takes a running container: programs begin when their addresses are there
    addresses = " ".join(network.address(config.name) for network in config.networks)
    container.with_command(["/bin/sh", "-c", _WHEN_WIRED, "sh", addresses, *config.command])
    container.with_tmpfs_mount("/tmp", "mode=1777").with_tmpfs_mount("/run", "mode=1777")
    container.with_envs(**machine_environment(), **config.environment)
    first = config.networks[0]
    return container.with_kwargs(
        hostname=config.name,
        init=True,  # reaps what slots leave behind
        user=f"{os.getuid()}:{os.getgid()}",
        network=first.name,
        networking_config={first.name: first.endpoint(config.name)},
    )
