"""The kubelet of the stand-in for Kubernetes: the containers of its pods are real, and run in Docker."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import docker.errors
from docker.models.containers import Container
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

from support.containers.container_network import ContainerNetwork
from support.containers.engine import engine_client
from support.processes.running import wait_until
from support.spark.kubernetes.objects import Document, Objects, RefusedError

NODE = "node-1"
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class PodImage:
    """How containers of an image are made.

    id        of the engine
    folders   of this machine, which they see at the same paths
    writable  folders inside -> options of the file systems that are mounted there
    user      as whom they run; empty: as the image says
    """

    id: str
    folders: Sequence[Path] = ()
    writable: Mapping[str, str] = field(default_factory=dict)
    user: str = ""


@dataclass
class _Run:
    """One pod that runs. log: what its container had printed when it ended."""

    pod: Document
    container: Container | None = None
    log: str = ""
    is_over: threading.Event = field(default_factory=threading.Event)


class Kubelet:
    """Runs pods as they come, and kills them as they go; what they write is in `folder`.

    images   by name; a pod with another one waits in vain, as where it cannot be pulled
    claims   folders by the names of persistent volume claims
    """

    def __init__(
        self,
        folder: Path,
        objects: Objects,
        network: ContainerNetwork,
        images: Mapping[str, PodImage],
        claims: Mapping[str, Path],
    ) -> None:
        self._folder, self._objects, self._network = folder, objects, network
        self._images, self._claims = images, claims
        self._hosts = folder / "hosts"
        self._named: set[str] = set()
        self._name("127.0.0.1 localhost")
        self._runs: dict[str, _Run] = {}
        self._thread = threading.Thread(target=self._look, name="kubelet")
        self.failures: list[str] = []
        """What went wrong in here."""

    def start(self) -> None:
        """From here on pods run."""
        self._thread.start()

    def stop(self) -> None:
        """Kills all that runs. The objects are closed."""
        self._thread.join()
        for run in self._runs.values():
            wait_until(partial(self._is_killed, run), f"pod {_key(run.pod)} is gone")

    def log(self, namespace: str, name: str) -> str:
        """What the pods of that name have printed, also those that are gone."""
        runs = [run for run in list(self._runs.values()) if _key(run.pod) == (namespace, name)]
        return "".join(run.log or _printed(run.container) for run in runs)

    def logs(self) -> str:
        """The ends of what all pods have printed."""
        return "\n".join(
            f"{_key(run.pod)}: {(run.log or _printed(run.container))[-6_000:]}" for run in list(self._runs.values())
        )

    # ---- pods ----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        while self._objects.wait(_LOOK_S):
            try:
                pods = {pod["metadata"]["uid"]: pod for pod in self._objects.select("pods")}
                begun = {uid: pod for uid, pod in pods.items() if uid not in self._runs and self._is_startable(pod)}
                # a pod that starts finds the names of all that was made before it
                self._name_hosts(pods.values())
                for uid, pod in begun.items():
                    run = self._runs[uid] = _Run(pod)
                    threading.Thread(target=self._run, args=(run,), name=f"pod-{uid}").start()
                for uid, run in self._runs.items():
                    if uid not in pods and not run.is_over.is_set():
                        self._kill(run)
            except Exception:  # it goes on with what there is; the test's end tells of it
                self.failures.append(traceback.format_exc())

    def _is_startable(self, pod: Document) -> bool:
        """Whether its image is there and its volumes are; it is told where it is not."""
        (container,) = pod["spec"]["containers"]
        if container["image"] not in self._images:
            why = {"reason": "ErrImagePull", "message": f"failed to pull image {container['image']!r}: not found"}
            if pod["status"].get("containerStatuses") is None:
                self._tell(pod, "Pending", {"waiting": why})
            return False
        names = [volume["configMap"]["name"] for volume in pod["spec"].get("volumes", ()) if "configMap" in volume]
        try:
            for name in names:
                self._objects.get("configmaps", pod["metadata"]["namespace"], name)
        except RefusedError:
            return False
        return True

    def _run(self, run: _Run) -> None:
        """From the container's beginning to its end."""
        ended = {"exitCode": 128, "reason": "StartError", "message": ""}
        folder = self._folder / run.pod["metadata"]["uid"]
        began = _now()
        try:
            with engine_client() as client:
                run.container = client.containers.create(**self._described(run.pod, folder))
                run.container.start()
                self._tell(run.pod, "Running", {"running": {"startedAt": began}})
                code = int(run.container.wait()["StatusCode"])
                run.log = _printed(run.container)
                run.container.remove(force=True, v=True)
            ended |= {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
            ended["message"] = (folder / "termination-log").read_text()[:4096]
        except docker.errors.NotFound:
            pass  # killed in between
        except Exception:
            ended["message"] = traceback.format_exc()
            self.failures.append(traceback.format_exc())
        finally:
            phase = "Succeeded" if ended["exitCode"] == 0 else "Failed"
            self._tell(run.pod, phase, {"terminated": {**ended, "startedAt": began, "finishedAt": _now()}})
            run.is_over.set()

    def _is_killed(self, run: _Run) -> bool:
        """To be asked again and again: one that is about to start cannot be killed yet."""
        self._kill(run)
        return run.is_over.is_set()

    def _kill(self, run: _Run) -> None:
        if run.container is None or run.is_over.is_set():
            return
        with suppress(docker.errors.APIError):  # it has ended by itself
            run.container.kill()

    def _tell(self, pod: Document, phase: str, state: Document) -> None:
        """Its status, unless it has been deleted."""
        namespace, name = _key(pod)
        (container,) = pod["spec"]["containers"]
        ready = phase == "Running"
        status = {"name": container["name"], "image": container["image"], "ready": ready, "restartCount": 0}
        address = self._network.address(name)
        told = {
            "phase": phase,
            "podIP": address,
            "startTime": pod["metadata"]["creationTimestamp"],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{**status, "state": state}],
        }

        def change(document: Document) -> Document:
            if document["metadata"]["uid"] == pod["metadata"]["uid"]:
                document["status"] = told
                document["spec"]["nodeName"] = NODE
            return document

        with suppress(RefusedError):  # it is gone
            self._objects.change("pods", namespace, name, change)

    # ---- containers ----------------------------------------------------------------------------------------------

    def _described(self, pod: Document, folder: Path) -> dict[str, Any]:
        """What Docker is to be told."""
        (container,) = pod["spec"]["containers"]
        name = pod["metadata"]["name"]
        folder.mkdir()
        message = folder / "termination-log"
        message.touch()
        # the image's user writes it
        message.chmod(0o666)
        image = self._images[container["image"]]
        mounts = {str(path): {"bind": str(path), "mode": "ro"} for path in image.folders}
        mounts[str(self._hosts)] = {"bind": "/etc/hosts", "mode": "ro"}
        mounts[str(message)] = {"bind": container.get("terminationMessagePath", "/dev/termination-log"), "mode": "rw"}
        sources = {volume["name"]: self._volume(pod, volume, folder) for volume in pod["spec"].get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            source = sources[mount["name"]]
            mode = "ro" if mount.get("readOnly") else "rw"
            mounts[str(source / mount["subPath"] if "subPath" in mount else source)] = {
                "bind": mount["mountPath"],
                "mode": mode,
            }
        return {
            "image": image.id,
            "entrypoint": container.get("command"),
            "command": container.get("args", []),
            "environment": {each["name"]: self._value(pod, each) for each in container.get("env", ())},
            "volumes": mounts,
            "tmpfs": dict(image.writable),
            "hostname": name,
            "user": image.user,
            "labels": {LABEL_SESSION_ID: SESSION_ID},
            "network": self._network.name,
            "networking_config": {self._network.name: self._network.endpoint(name)},
        }

    def _value(self, pod: Document, variable: Document) -> str:
        if "valueFrom" not in variable:
            return str(variable.get("value", ""))
        meta = pod["metadata"]
        fields = {"metadata.name": meta["name"], "metadata.namespace": meta["namespace"], "spec.nodeName": NODE}
        fields["status.podIP"] = self._network.address(meta["name"])
        return str(fields[variable["valueFrom"]["fieldRef"]["fieldPath"]])

    def _volume(self, pod: Document, volume: Document, folder: Path) -> Path:
        """A folder of this machine."""
        match volume:
            case {"hostPath": {"path": path}}:
                return Path(path)
            case {"persistentVolumeClaim": {"claimName": claim}}:
                return self._claims[claim]
        own = folder / str(volume["name"])
        own.mkdir()
        if "configMap" in volume:
            wanted = volume["configMap"]
            data = self._objects.get("configmaps", pod["metadata"]["namespace"], wanted["name"])["data"]
            items = wanted.get("items") or [{"key": key, "path": key} for key in data]
            for item in items:
                (own / item["path"]).write_text(data[item["key"]])
        else:
            assert "emptyDir" in volume, f"the stand-in has no such volume: {volume}"
            # as a kubelet does: every user of an image may write there
            own.chmod(0o777)
        return own

    def _name_hosts(self, pods: Any) -> None:
        """Pods and services by name, for all containers. Names stay: no address is ever given to another one."""
        pods = list(pods)
        for _, name in map(_key, pods):
            self._name(f"{self._network.address(name)} {name}")
        for service in self._objects.select("services"):
            wanted = service["spec"].get("selector", {}).items()
            namespace, name = _key(service)
            for pod in pods:
                if wanted <= pod["metadata"].get("labels", {}).items():
                    self._name(f"{self._network.address(pod['metadata']['name'])} {name}.{namespace}.svc {name}")

    def _name(self, line: str) -> None:
        """One more line for the hosts file. It is mounted, and never without the lines that it had."""
        if line not in self._named:
            self._named.add(line)
            with self._hosts.open("a") as file:
                file.write(f"{line}\n")


def _key(document: Document) -> tuple[str, str]:
    meta = document["metadata"]
    return meta["namespace"], meta["name"]


def _printed(container: Container | None) -> str:
    try:
        return "" if container is None else container.logs().decode(errors="replace")
    except docker.errors.APIError:
        return ""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
